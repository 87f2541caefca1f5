/* Gradient checks of what transformers are made of, attention apart. */
#include <math.h>

#include "gradcheck.h"

/* ---- embedding ----------------------------------------------------------- */

enum { VOCABULARY = 6, WIDTH = 5, PLACES = 8 };

/* Some rows twice, one never; the second use reads others. */
static int64_t index_at(int place, int use)
{
    static const int64_t indices[PLACES] = {3, 0, 3, 5, 1, 3, 0, 2};
    return (indices[place] + use) % VOCABULARY;
}

static ls_tensor *run_embedding(ls_tape *tape, ls_tensor *const *in, int use)
{
    ls_tensor *indices = ls_tape_output(tape, LS_I64, 2, (int64_t[]){2, 4});
    int64_t *data = tensor_data(indices);
    for (int i = 0; i < PLACES; i++)
        data[i] = index_at(i, use);
    return ls_embedding(tape, in[0], indices);
}

static void ref_embedding(double *y, const double *const *in, int use)
{
    for (int i = 0; i < PLACES * WIDTH; i++)
        y[i] = in[0][index_at(i / WIDTH, use) * WIDTH + i % WIDTH];
}

/* ---- normalisation ------------------------------------------------------- */

enum { ROWS = 6, COLUMNS = 7 };
static const double eps = 1e-3;

static void normalise(double *y, const double *x, const double *weight,
                      bool centred)
{
    for (int r = 0; r < ROWS; r++, x += COLUMNS, y += COLUMNS) {
        double mean = 0.0, variance = 0.0;
        for (int c = 0; c < COLUMNS && centred; c++)
            mean += x[c] / COLUMNS;
        for (int c = 0; c < COLUMNS; c++)
            variance += (x[c] - mean) * (x[c] - mean) / COLUMNS;
        for (int c = 0; c < COLUMNS; c++)
            y[c] = (x[c] - mean) / sqrt(variance + eps) * weight[c];
    }
}

static ls_tensor *run_rms_norm(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    return ls_rms_norm(tape, in[0], in[1], eps);
}

static void ref_rms_norm(double *y, const double *const *in, int use)
{
    (void)use;
    normalise(y, in[0], in[1], false);
}

static ls_tensor *run_layer_norm(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    return ls_layer_norm(tape, in[0], in[1], in[2], eps);
}

static void ref_layer_norm(double *y, const double *const *in, int use)
{
    (void)use;
    normalise(y, in[0], in[1], true);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        y[i] += in[2][i % COLUMNS];
}

/* ---- softmax ------------------------------------------------------------- */

enum { OUTER = 3, ALONG = 5, INNER = 4 };

static ls_tensor *run_softmax(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    return ls_softmax(tape, in[0], 1);
}

static void ref_softmax(double *y, const double *const *in, int use)
{
    (void)use;
    for (int o = 0; o < OUTER; o++)
        for (int i = 0; i < INNER; i++) {
            const int at = o * ALONG * INNER + i;
            double sum = 0.0;
            for (int a = 0; a < ALONG; a++)
                sum += exp(in[0][at + a * INNER]);
            for (int a = 0; a < ALONG; a++)
                y[at + a * INNER] = exp(in[0][at + a * INNER]) / sum;
        }
}

static ls_tensor *run_log_softmax(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    return ls_log_softmax(tape, in[0], 1);
}

static void ref_log_softmax(double *y, const double *const *in, int use)
{
    ref_softmax(y, in, use);
    for (int i = 0; i < OUTER * ALONG * INNER; i++)
        y[i] = log(y[i]);
}

static ls_tensor *run_softmax_last(ls_tape *tape, ls_tensor *const *in, int use)
{
    return run_softmax(tape, in, use);
}

static void ref_softmax_last(double *y, const double *const *in, int use)
{
    (void)use;
    for (int o = 0; o < OUTER; o++) {
        const double *x = in[0] + o * ALONG;
        double sum = 0.0;
        for (int a = 0; a < ALONG; a++)
            sum += exp(x[a]);
        for (int a = 0; a < ALONG; a++)
            y[o * ALONG + a] = exp(x[a]) / sum;
    }
}

/* More rows than a block of the sums over them has. */
enum { MANY = 70, FEW = 3 };

static ls_tensor *run_many_rows(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    return ls_layer_norm(tape, in[0], in[1], in[2], 1.0);
}

static void ref_many_rows(double *y, const double *const *in, int use)
{
    (void)use;
    for (int r = 0; r < MANY; r++) {
        const double *x = in[0] + r * FEW;
        const double mean = (x[0] + x[1] + x[2]) / FEW;
        double variance = 1.0;
        for (int c = 0; c < FEW; c++)
            variance += (x[c] - mean) * (x[c] - mean) / FEW;
        for (int c = 0; c < FEW; c++)
            y[r * FEW + c] =
                (x[c] - mean) / sqrt(variance) * in[1][c] + in[2][c];
    }
}

/* ---- rotary positions ---------------------------------------------------- */

enum { BATCH = 2, LENGTH = 3, HEADS = 2, D = 6 };

static double angle(int row, int pair)
{
    return row * pow(100.0, -2.0 * pair / D);
}

enum { PAIRS, TO_HALVES, HALVES };

static ls_tensor *rope(ls_tape *tape, ls_tensor *x, int layout)
{
    const int64_t shape[] = {LENGTH + 1, D / 2}; /* more than are used */
    ls_tensor *cosine = ls_tape_output(tape, LS_F32, 2, shape);
    ls_tensor *sine = ls_tape_output(tape, LS_F32, 2, shape);
    float *c = tensor_data(cosine), *s = tensor_data(sine);
    for (int i = 0; i < (LENGTH + 1) * (D / 2); i++) {
        c[i] = (float)cos(angle(i / (D / 2), i % (D / 2)));
        s[i] = (float)sin(angle(i / (D / 2), i % (D / 2)));
    }
    return ls_rope(tape, x, cosine, sine,
                   layout == HALVES      ? LS_ROPE_HALVES
                   : layout == TO_HALVES ? LS_ROPE_PAIRS_TO_HALVES
                                         : LS_ROPE_PAIRS);
}

static void rotate(double *y, const double *x, int layout)
{
    const bool halves = layout != PAIRS;
    for (int row = 0; row < BATCH * LENGTH * HEADS; row++, x += D, y += D)
        for (int k = 0; k < D / 2; k++) {
            const double at = angle(row / HEADS % LENGTH, k);
            const double a = x[layout == HALVES ? k : 2 * k];
            const double b = x[layout == HALVES ? D / 2 + k : 2 * k + 1];
            y[halves ? k : 2 * k] = cos(at) * a - sin(at) * b;
            y[halves ? D / 2 + k : 2 * k + 1] = sin(at) * a + cos(at) * b;
        }
}

static ls_tensor *run_rope(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    return rope(tape, in[0], PAIRS);
}

static void ref_rope(double *y, const double *const *in, int use)
{
    (void)use;
    rotate(y, in[0], PAIRS);
}

static ls_tensor *run_rope_halves(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    return rope(tape, in[0], TO_HALVES);
}

static void ref_rope_halves(double *y, const double *const *in, int use)
{
    (void)use;
    rotate(y, in[0], TO_HALVES);
}

static ls_tensor *run_rotate_half(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    return rope(tape, in[0], HALVES);
}

static void ref_rotate_half(double *y, const double *const *in, int use)
{
    (void)use;
    rotate(y, in[0], HALVES);
}

/* ---- activations --------------------------------------------------------- */

enum { ELEMENTS = 30 };

static ls_tensor *run_swiglu(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    return ls_swiglu(tape, in[0], in[1]);
}

static void ref_swiglu(double *y, const double *const *in, int use)
{
    (void)use;
    for (int i = 0; i < ELEMENTS; i++)
        y[i] = in[0][i] / (1.0 + exp(-in[0][i])) * in[1][i];
}

static ls_tensor *run_gelu(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    return ls_gelu(tape, in[0]);
}

static void ref_gelu(double *y, const double *const *in, int use)
{
    const double pi = 3.14159265358979323846;
    (void)use;
    for (int i = 0; i < ELEMENTS; i++) {
        const double x = in[0][i];
        y[i] =
            0.5 * x * (1.0 + tanh(sqrt(2.0 / pi) * (x + 0.044715 * x * x * x)));
    }
}

/* ---- the cases ----------------------------------------------------------- */

#define FUNCTIONS(name) .run = run_##name, .reference = ref_##name
#define ELEMENTWISE                                                            \
    {                                                                          \
        3, {2, 3, 5}, FILL_UNIFORM                                             \
    }
#define SEQUENCES                                                              \
    {                                                                          \
        4, {BATCH, LENGTH, HEADS, D}, FILL_UNIFORM                             \
    }

const gradcheck_case gradcheck_transformer[] = {
    {"embedding", "rows twice and never", .n_inputs = 1,
     .in = {{2, {VOCABULARY, WIDTH}, FILL_UNIFORM}}, FUNCTIONS(embedding),
     .terms = 3, .gain = 1},
    /* |x_hat| <= sqrt(columns); the factor of a row is at most 4 for these. */
    {"rms_norm", "6 x 7", .n_inputs = 2,
     .in = {{3, {2, 3, COLUMNS}, FILL_UNIFORM}, {1, {COLUMNS}, FILL_UNIFORM}},
     FUNCTIONS(rms_norm), .terms = COLUMNS, .gain = 8},
    {"layer_norm", "6 x 7", .n_inputs = 3,
     .in = {{3, {2, 3, COLUMNS}, FILL_UNIFORM},
            {1, {COLUMNS}, FILL_UNIFORM},
            {1, {COLUMNS}, FILL_UNIFORM}},
     FUNCTIONS(layer_norm), .terms = COLUMNS, .gain = 8},
    {"layer_norm", "many rows", .n_inputs = 3,
     .in = {{2, {MANY, FEW}, FILL_UNIFORM},
            {1, {FEW}, FILL_UNIFORM},
            {1, {FEW}, FILL_UNIFORM}},
     FUNCTIONS(many_rows), .terms = MANY, .gain = 1},
    /* Both values are at most 1. */
    {"softmax", "an axis in the middle", .n_inputs = 1,
     .in = {{3, {OUTER, ALONG, INNER}, FILL_UNIFORM}}, FUNCTIONS(softmax),
     .terms = ALONG, .gain = 2},
    {"log_softmax", "an axis in the middle", .n_inputs = 1,
     .in = {{3, {OUTER, ALONG, INNER}, FILL_UNIFORM}}, FUNCTIONS(log_softmax),
     .terms = 2 * ALONG, .gain = 2},
    {"softmax", "the last axis", .n_inputs = 1,
     .in = {{2, {OUTER, ALONG}, FILL_UNIFORM}}, FUNCTIONS(softmax_last),
     .terms = ALONG, .gain = 2},
    {"rope", "in place of the pair", .n_inputs = 1, .in = {SEQUENCES},
     FUNCTIONS(rope), .terms = 2, .gain = 2},
    {"rope", "halves", .n_inputs = 1, .in = {SEQUENCES}, FUNCTIONS(rope_halves),
     .terms = 2, .gain = 2},
    {"rope", "of halves", .n_inputs = 1, .in = {SEQUENCES},
     FUNCTIONS(rotate_half), .terms = 2, .gain = 2},
    {"swiglu", "two", .n_inputs = 2, .in = {ELEMENTWISE, ELEMENTWISE},
     FUNCTIONS(swiglu), .terms = 2, .gain = 1},
    {"gelu", "one", .n_inputs = 1, .in = {ELEMENTWISE}, FUNCTIONS(gelu),
     .terms = 2, .gain = 1},
};
const size_t gradcheck_transformer_count = TEST_COUNT(gradcheck_transformer);
