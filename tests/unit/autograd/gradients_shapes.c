/*
 * Gradient checks of operations that change shapes: broadcasting, reductions
 * over axes, joining and cutting, products of batches.
 */
#include <math.h>

#include "gradcheck.h"

/* ---- broadcasting -------------------------------------------------------- */

/* a (2, 3, 5) with b (3, 1), repeated along the first and the last. */
#define OUTER  2
#define MIDDLE 3
#define INNER  5
#define EACH(name, expression)                                                 \
    static void ref_##name(double *y, const double *const *in, int use)        \
    {                                                                          \
        (void)use;                                                             \
        for (int i = 0; i < OUTER * MIDDLE * INNER; i++) {                     \
            const double a = in[0][i], b = in[1][i / INNER % MIDDLE];          \
            y[i] = (expression);                                               \
        }                                                                      \
    }
#define RUN(name, call)                                                        \
    static ls_tensor *run_##name(ls_tape *tape, ls_tensor *const *in, int use) \
    {                                                                          \
        (void)use;                                                             \
        return call;                                                           \
    }

RUN(add, ls_add(tape, in[0], in[1]))
EACH(add, a + b)
RUN(sub, ls_sub(tape, in[1], in[0]))
EACH(sub, b - a)
RUN(mul, ls_mul(tape, in[0], in[1]))
EACH(mul, a *b)

/* Divisors of 1.5 to 3.5. */
static ls_tensor *away_from_zero(ls_tape *tape, ls_tensor *x)
{
    const float offset = 2.5F;
    ls_tensor *shift = ls_tape_output(tape, LS_F32, 0, NULL);
    *(float *)tensor_data(shift) = offset;
    return ls_add(tape, x, shift);
}

RUN(div, ls_div(tape, in[0], away_from_zero(tape, in[1])))
EACH(div, a / (b + 2.5))
RUN(div_by_larger, ls_div(tape, in[1], away_from_zero(tape, in[0])))
EACH(div_by_larger, b / (a + 2.5))

RUN(div_equal, ls_div(tape, in[0], away_from_zero(tape, in[1])))
static void ref_div_equal(double *y, const double *const *in, int use)
{
    (void)use;
    for (int i = 0; i < 30; i++)
        y[i] = in[0][i] / (in[1][i] + 2.5);
}

/* By a condition (3, 5), which is repeated along the first dimension. */
static const uint8_t chosen[MIDDLE * INNER] = {1, 0, 0, 7, 1, 0, 255, 0,
                                               1, 1, 0, 0, 1, 0, 1};

static ls_tensor *condition(ls_tape *tape)
{
    ls_tensor *mask =
        ls_tape_output(tape, LS_U8, 2, (const int64_t[]){MIDDLE, INNER});
    memcpy(tensor_data(mask), chosen, sizeof chosen);
    return mask;
}

#define CHOICE(a, b) (chosen[i % (MIDDLE * INNER)] != 0 ? (a) : (b))
RUN(where, ls_where(tape, condition(tape), in[0], in[1]))
EACH(where, CHOICE(a, b))
RUN(where_not, ls_where(tape, condition(tape), in[1], in[0]))
EACH(where_not, CHOICE(b, a))
RUN(where_equal, ls_where(tape, condition(tape), in[0], in[1]))
static void ref_where_equal(double *y, const double *const *in, int use)
{
    (void)use;
    for (int i = 0; i < OUTER * MIDDLE * INNER; i++)
        y[i] = CHOICE(in[0][i], in[1][i]);
}

/* (2, 3, 5) by two indices along the middle, which one has twice. */
static const int64_t along_middle[OUTER][2][INNER] = {
    {{2, 0, 1, 1, 0}, {2, 1, 0, 1, 2}}, {{0, 0, 0, 2, 1}, {1, 2, 2, 2, 1}}};

static ls_tensor *run_take_along(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    ls_tensor *indices =
        ls_tape_output(tape, LS_I64, 3, (const int64_t[]){OUTER, 2, INNER});
    memcpy(tensor_data(indices), along_middle, sizeof along_middle);
    return ls_take_along(tape, in[0], indices, 1);
}

static void ref_take_along(double *y, const double *const *in, int use)
{
    (void)use;
    for (int o = 0; o < OUTER; o++)
        for (int j = 0; j < 2; j++)
            for (int i = 0; i < INNER; i++)
                y[(o * 2 + j) * INNER + i] =
                    in[0][(o * MIDDLE + along_middle[o][j][i]) * INNER + i];
}

/* (4, 3): one of each row, as the labels of a loss do. */
static const int64_t one_of_each[4] = {2, 0, 1, 1};

static ls_tensor *run_take_one(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    ls_tensor *indices =
        ls_tape_output(tape, LS_I64, 2, (const int64_t[]){4, 1});
    memcpy(tensor_data(indices), one_of_each, sizeof one_of_each);
    return ls_take_along(tape, in[0], indices, 1);
}

static void ref_take_one(double *y, const double *const *in, int use)
{
    (void)use;
    for (int i = 0; i < 4; i++)
        y[i] = in[0][i * 3 + one_of_each[i]];
}

/* (4, 1) and (1, 70): both are repeated, rows longer than a vector. */
enum { ROWS = 4, COLS = 70 };
RUN(outer, ls_mul(tape, in[0], in[1]))
static void ref_outer(double *y, const double *const *in, int use)
{
    (void)use;
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLS; c++)
            y[r * COLS + c] = in[0][r] * in[1][c];
}
RUN(outer_add, ls_add(tape, in[0], in[1]))
static void ref_outer_add(double *y, const double *const *in, int use)
{
    (void)use;
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLS; c++)
            y[r * COLS + c] = in[0][r] + in[1][c];
}

/* (70) to (4, 70) */
static ls_tensor *run_expand(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    return ls_expand(tape, in[0], 2, (const int64_t[]){ROWS, COLS});
}

static void ref_expand(double *y, const double *const *in, int use)
{
    (void)use;
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLS; c++)
            y[r * COLS + c] = in[0][c];
}

/* ---- reductions ---------------------------------------------------------- */

/* (2, 3, 4, 5) over any axes: where element i of x goes. */
static const int64_t deep[4] = {2, 3, 4, 5};

static int place_in(const int *kept, int i)
{
    int place = 0, step = 1;
    for (int d = 3; d >= 0; d--) {
        const int index = i % (int)deep[d];
        i /= (int)deep[d];
        if (!kept[d])
            continue;
        place += index * step;
        step *= (int)deep[d];
    }
    return place;
}

static void sum_over(double *y, const double *x, const int *kept, double factor)
{
    for (int i = 0; i < 120; i++)
        y[i] = 0.0;
    for (int i = 0; i < 120; i++)
        y[place_in(kept, i)] += factor * x[i];
}

RUN(sum_outer, ls_sum_axes(tape, in[0], (const int[]){1, 0}, 2, LS_AXES_DROP))
static void ref_sum_outer(double *y, const double *const *in, int use)
{
    (void)use;
    sum_over(y, in[0], (const int[]){0, 0, 1, 1}, 1.0);
}

RUN(sum_apart, ls_sum_axes(tape, in[0], (const int[]){0, 2}, 2, LS_AXES_KEEP))
static void ref_sum_apart(double *y, const double *const *in, int use)
{
    (void)use;
    sum_over(y, in[0], (const int[]){0, 1, 0, 1}, 1.0);
}

RUN(sum_none, ls_sum_axes(tape, in[0], NULL, 0, LS_AXES_DROP))
static void ref_sum_none(double *y, const double *const *in, int use)
{
    (void)use;
    sum_over(y, in[0], (const int[]){1, 1, 1, 1}, 1.0);
}

RUN(mean_apart, ls_mean_axes(tape, in[0], (const int[]){3, 1}, 2, LS_AXES_DROP))
static void ref_mean_apart(double *y, const double *const *in, int use)
{
    (void)use;
    sum_over(y, in[0], (const int[]){1, 0, 1, 0}, 1.0 / 15);
}

RUN(mean_all,
    ls_mean_axes(tape, in[0], (const int[]){0, 1, 2, 3}, 4, LS_AXES_KEEP))
static void ref_mean_all(double *y, const double *const *in, int use)
{
    (void)use;
    sum_over(y, in[0], (const int[]){0, 0, 0, 0}, 1.0 / 120);
}

/* The elements of these inputs differ, so that each has one largest. */
static void max_over(double *y, const double *x, const int *kept)
{
    for (int i = 0; i < 60; i++)
        y[i] = -INFINITY;
    for (int i = 0; i < 60; i++) {
        const int to = place_in(kept, i);
        y[to] = fmax(y[to], x[i]);
    }
}

RUN(max_inner, ls_max_axes(tape, in[0], (const int[]){1, 3}, 2, LS_AXES_KEEP))
static void ref_max_inner(double *y, const double *const *in, int use)
{
    (void)use;
    max_over(y, in[0], (const int[]){1, 0, 1, 0});
}

RUN(max_outer, ls_max_axes(tape, in[0], (const int[]){0, 2}, 2, LS_AXES_DROP))
static void ref_max_outer(double *y, const double *const *in, int use)
{
    (void)use;
    max_over(y, in[0], (const int[]){0, 1, 0, 1});
}

/* ---- joining and cutting ------------------------------------------------- */

/* (2, 3, 5) and (2, 4, 5) along the axis in the middle, the first twice. */
static ls_tensor *run_concat(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    return ls_concat(tape, (ls_tensor *const[]){in[0], in[1], in[0]}, 3, 1);
}

static void ref_concat(double *y, const double *const *in, int use)
{
    (void)use;
    for (int n = 0; n < 2; n++)
        for (int i = 0; i < 10 * 5; i++) {
            const int row = i / 5;
            const bool second = row >= 3 && row < 7;
            const int from = second ? i - 15 : row < 3 ? i : i - 35;
            y[n * 50 + i] = in[second][n * (second ? 20 : 15) + from];
        }
}

RUN(slice, ls_slice(tape, in[0], 2, 1, 5, 3)) /* 1 and 4 of (2, 3, 5) */
static void ref_slice(double *y, const double *const *in, int use)
{
    (void)use;
    for (int row = 0; row < 6; row++)
        for (int i = 0; i < 2; i++)
            y[row * 2 + i] = in[0][row * 5 + 1 + 3 * i];
}

/* ---- products ------------------------------------------------------------ */

/*
 * y[i] = a[i / (products / of_a)] b[i % of_b], (M, K) x (K, N) each: what is
 * repeated is a's last or b's first dimension of the batch.
 */
enum { M = 3, K = 7, N = 5 };

static void products(double *y, const double *const *in, int n, int of_a,
                     int of_b)
{
    for (int i = 0; i < n; i++)
        for (int e = 0; e < M * N; e++) {
            const double *a = in[0] + i / (n / of_a) * M * K + e / N * K;
            const double *b = in[1] + i % of_b * K * N + e % N;
            y[i * M * N + e] = 0.0;
            for (int k = 0; k < K; k++)
                y[i * M * N + e] += a[k] * b[k * N];
        }
}

RUN(matmul, ls_matmul(tape, in[0], in[1]))
static void ref_four(double *y, const double *const *in, int use)
{
    (void)use;
    products(y, in, 4, 4, 4);
}
static void ref_one_weight(double *y, const double *const *in, int use)
{
    (void)use;
    products(y, in, 4, 4, 1);
}
static void ref_one_left(double *y, const double *const *in, int use)
{
    (void)use;
    products(y, in, 4, 1, 4);
}
static void ref_both_ways(double *y, const double *const *in, int use)
{
    (void)use;
    products(y, in, 6, 3, 2);
}

/* b^T: a view in which rows and columns are exchanged. */
RUN(matmul_turned, ls_matmul(tape, in[0], ls_transpose(tape, in[1], 1, 2)))
static void ref_turned(double *y, const double *const *in, int use)
{
    (void)use;
    for (int i = 0; i < 2 * M * N; i++) {
        const int at = i / (M * N), row = i / N % M, col = i % N;
        y[i] = 0.0;
        for (int k = 0; k < K; k++)
            y[i] +=
                in[0][(at * M + row) * K + k] * in[1][(at * N + col) * K + k];
    }
}

/* ---- smoothed labels ----------------------------------------------------- */

enum { CE_ROWS = 5, CE_CLASSES = 7 };

static ls_tensor *run_smooth(ls_tape *tape, ls_tensor *const *in, int use)
{
    static const int64_t classes[CE_ROWS] = {6, 0, 3, 3, 1};
    const int64_t rows = CE_ROWS;
    ls_tensor *labels = ls_tape_output(tape, LS_I64, 1, &rows);
    (void)use;
    memcpy(tensor_data(labels), classes, sizeof classes);
    return ls_cross_entropy(tape, in[0], labels,
                            &(ls_cross_entropy_options){.smoothing = 0.2});
}

static void ref_smooth(double *y, const double *const *in, int use)
{
    static const int classes[CE_ROWS] = {6, 0, 3, 3, 1};
    (void)use;
    y[0] = 0.0;
    for (int r = 0; r < CE_ROWS; r++) {
        const double *x = in[0] + r * CE_CLASSES;
        double sum = 0.0;
        for (int c = 0; c < CE_CLASSES; c++)
            sum += exp(x[c]);
        for (int c = 0; c < CE_CLASSES; c++) {
            const double share = 0.2 / CE_CLASSES + 0.8 * (c == classes[r]);
            y[0] += share * (log(sum) - x[c]) / CE_ROWS;
        }
    }
}

/* ---- the cases ----------------------------------------------------------- */

#define FUNCTIONS(name) .run = run_##name, .reference = ref_##name
#define PAIR                                                                   \
    .n_inputs = 2, .in = {{3, {OUTER, MIDDLE, INNER}, FILL_UNIFORM},           \
                          {2, {MIDDLE, 1}, FILL_UNIFORM}}
#define OUTER_PAIR                                                             \
    .n_inputs = 2,                                                             \
    .in = {{2, {ROWS, 1}, FILL_UNIFORM}, {2, {1, COLS}, FILL_UNIFORM}}
#define DEEP .n_inputs = 1, .in = {{4, {2, 3, 4, 5}, FILL_UNIFORM}}
/* Of the 101 values that differ, 60. */
#define DISTINCT(d0, d1, d2, d3)                                               \
    .n_inputs = 1, .in = {{4, {d0, d1, d2, d3}, FILL_DISTINCT}}

const gradcheck_case gradcheck_shapes[] = {
    {"add", "b repeated", PAIR, FUNCTIONS(add), .terms = 10, .gain = 2},
    {"sub", "a repeated", PAIR, FUNCTIONS(sub), .terms = 10, .gain = 2},
    {"mul", "b repeated", PAIR, FUNCTIONS(mul), .terms = 10, .gain = 1},
    {"mul", "both repeated", OUTER_PAIR, FUNCTIONS(outer), .terms = COLS,
     .gain = 1},
    {"add", "both repeated", OUTER_PAIR, FUNCTIONS(outer_add), .terms = COLS,
     .gain = 2},
    {"div", "equal", .n_inputs = 2,
     .in = {{3, {2, 3, 5}, FILL_UNIFORM}, {3, {2, 3, 5}, FILL_UNIFORM}},
     FUNCTIONS(div_equal), .terms = 1, .gain = 2},
    {"div", "b repeated", PAIR, FUNCTIONS(div), .terms = 10, .gain = 2},
    {"div", "a repeated", PAIR, FUNCTIONS(div_by_larger), .terms = 10,
     .gain = 2},
    {"where", "equal", .n_inputs = 2,
     .in = {{3, {2, 3, 5}, FILL_UNIFORM}, {3, {2, 3, 5}, FILL_UNIFORM}},
     FUNCTIONS(where_equal), .terms = 1, .gain = 1},
    {"where", "b repeated", PAIR, FUNCTIONS(where), .terms = 10, .gain = 1},
    {"where", "a repeated", PAIR, FUNCTIONS(where_not), .terms = 10, .gain = 1},
    {"take_along", "the middle", .n_inputs = 1,
     .in = {{3, {OUTER, MIDDLE, INNER}, FILL_UNIFORM}}, FUNCTIONS(take_along),
     .terms = 2, .gain = 1},
    {"take_along", "one of each row", .n_inputs = 1,
     .in = {{2, {4, 3}, FILL_UNIFORM}}, FUNCTIONS(take_one), .terms = 1,
     .gain = 1},
    {"expand", "rows", .n_inputs = 1, .in = {{1, {COLS}, FILL_UNIFORM}},
     FUNCTIONS(expand), .terms = ROWS, .gain = 1},
    {"sum_axes", "the outer two", DEEP, FUNCTIONS(sum_outer), .terms = 6,
     .gain = 1},
    {"sum_axes", "two apart, kept", DEEP, FUNCTIONS(sum_apart), .terms = 8,
     .gain = 1},
    {"sum_axes", "none", DEEP, FUNCTIONS(sum_none), .terms = 1, .gain = 1},
    {"mean_axes", "two apart", DEEP, FUNCTIONS(mean_apart), .terms = 15,
     .gain = 1},
    {"mean_axes", "all", DEEP, FUNCTIONS(mean_all), .terms = 120,
     .gain = 1.0 / 120},
    {"max_axes", "with the inner", DISTINCT(1, 3, 4, 5), FUNCTIONS(max_inner),
     .terms = 1, .gain = 1},
    {"max_axes", "two apart", DISTINCT(1, 3, 4, 5), FUNCTIONS(max_outer),
     .terms = 1, .gain = 1},
    {"concat", "three", .n_inputs = 2,
     .in = {{3, {2, 3, 5}, FILL_UNIFORM}, {3, {2, 4, 5}, FILL_UNIFORM}},
     FUNCTIONS(concat), .terms = 2, .gain = 1},
    {"slice", "1 and 4 of 5", .n_inputs = 1,
     .in = {{3, {2, 3, 5}, FILL_UNIFORM}}, FUNCTIONS(slice), .terms = 1,
     .gain = 1},
    {"matmul", "2 x 2 products", .n_inputs = 2,
     .in = {{4, {2, 2, M, K}, FILL_UNIFORM}, {4, {2, 2, K, N}, FILL_UNIFORM}},
     .run = run_matmul, .reference = ref_four, .terms = K, .gain = 1},
    {"matmul", "one b for all", .n_inputs = 2,
     .in = {{4, {2, 2, M, K}, FILL_UNIFORM}, {2, {K, N}, FILL_UNIFORM}},
     .run = run_matmul, .reference = ref_one_weight, .terms = 4 * M, .gain = 1},
    {"matmul", "one a for all", .n_inputs = 2,
     .in = {{2, {M, K}, FILL_UNIFORM}, {3, {4, K, N}, FILL_UNIFORM}},
     .run = run_matmul, .reference = ref_one_left, .terms = 4 * N, .gain = 1},
    {"matmul", "both repeated", .n_inputs = 2,
     .in = {{4, {3, 1, M, K}, FILL_UNIFORM}, {3, {2, K, N}, FILL_UNIFORM}},
     .run = run_matmul, .reference = ref_both_ways, .terms = 3 * N, .gain = 1},
    {"matmul", "transposed", .n_inputs = 2,
     .in = {{3, {2, M, K}, FILL_UNIFORM}, {3, {2, N, K}, FILL_UNIFORM}},
     .run = run_matmul_turned, .reference = ref_turned, .terms = K, .gain = 1},
    {"cross_entropy", "smoothed labels", .n_inputs = 1,
     .in = {{2, {CE_ROWS, CE_CLASSES}, FILL_UNIFORM}}, FUNCTIONS(smooth),
     .terms = CE_CLASSES + CE_ROWS, .gain = 0.5},
};
const size_t gradcheck_shapes_count = TEST_COUNT(gradcheck_shapes);
