/* Gradient checks of products, images, normalisation. */
#include <math.h>

#include "gradcheck.h"

/* ---- products ------------------------------------------------------------ */

enum { MM_M = 4, MM_K = 7, MM_N = 5 };

static ls_tensor *run_matmul(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    return ls_matmul(tape, in[0], in[1]);
}

static void ref_matmul(double *y, const double *const *in, int use)
{
    (void)use;
    for (int m = 0; m < MM_M; m++) {
        for (int n = 0; n < MM_N; n++) {
            double sum = 0.0;
            for (int k = 0; k < MM_K; k++)
                sum += in[0][m * MM_K + k] * in[1][k * MM_N + n];
            y[m * MM_N + n] = sum;
        }
    }
}

/* x (2, 3, 7), weight (5, 7), bias (5) */
static ls_tensor *run_linear(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    return ls_linear(tape, in[0], in[1], in[2]);
}

static void linear(double *y, const double *x, const double *weight,
                   const double *bias)
{
    for (int r = 0; r < 6; r++) {
        for (int o = 0; o < 5; o++) {
            double sum = bias != NULL ? bias[o] : 0.0;
            for (int i = 0; i < 7; i++)
                sum += x[r * 7 + i] * weight[o * 7 + i];
            y[r * 5 + o] = sum;
        }
    }
}

static void ref_linear(double *y, const double *const *in, int use)
{
    (void)use;
    linear(y, in[0], in[1], in[2]);
}

static ls_tensor *run_linear_no_bias(ls_tape *tape, ls_tensor *const *in,
                                     int use)
{
    (void)use;
    return ls_linear(tape, in[0], in[1], NULL);
}

static void ref_linear_no_bias(double *y, const double *const *in, int use)
{
    (void)use;
    linear(y, in[0], in[1], NULL);
}

/* ---- images -------------------------------------------------------------- */

typedef struct conv_shape {
    int n, c, h, w, o, k, stride, padding;
    bool relu, bias;
} conv_shape;

static int conv_extent(int in, const conv_shape *s)
{
    return (in + 2 * s->padding - s->k) / s->stride + 1;
}

static double conv_at(const conv_shape *s, const double *const *in, int n,
                      int o, int oy, int ox)
{
    double sum = s->bias ? in[2][o] : 0.0;
    for (int c = 0; c < s->c; c++) {
        for (int ky = 0; ky < s->k; ky++) {
            for (int kx = 0; kx < s->k; kx++) {
                const int y = oy * s->stride + ky - s->padding;
                const int x = ox * s->stride + kx - s->padding;
                if (y < 0 || y >= s->h || x < 0 || x >= s->w)
                    continue;
                sum += in[0][((n * s->c + c) * s->h + y) * s->w + x] *
                       in[1][((o * s->c + c) * s->k + ky) * s->k + kx];
            }
        }
    }
    return s->relu ? fmax(sum, 0.0) : sum;
}

static void conv(double *y, const double *const *in, const conv_shape *s)
{
    const int oh = conv_extent(s->h, s), ow = conv_extent(s->w, s);
    for (int n = 0; n < s->n; n++) {
        for (int o = 0; o < s->o; o++) {
            for (int p = 0; p < oh * ow; p++)
                y[(n * s->o + o) * oh * ow + p] =
                    conv_at(s, in, n, o, p / ow, p % ow);
        }
    }
}

#define CONV_CASE(name, ...)                                                   \
    static const conv_shape name = {__VA_ARGS__};                              \
    static ls_tensor *run_##name(ls_tape *tape, ls_tensor *const *in, int use) \
    {                                                                          \
        (void)use;                                                             \
        return ls_conv2d(tape, in[0], in[1], name.bias ? in[2] : NULL,         \
                         &(ls_conv2d_options){.stride = name.stride,           \
                                              .padding = name.padding,         \
                                              .relu = name.relu});             \
    }                                                                          \
    static void ref_##name(double *y, const double *const *in, int use)        \
    {                                                                          \
        (void)use;                                                             \
        conv(y, in, &name);                                                    \
    }

CONV_CASE(conv_small, .n = 2, .c = 3, .h = 5, .w = 6, .o = 4, .k = 3,
          .stride = 1, .bias = true)
CONV_CASE(conv_strided, .n = 2, .c = 2, .h = 7, .w = 5, .o = 3, .k = 3,
          .stride = 2, .padding = 1)
CONV_CASE(conv_relu, .n = 2, .c = 3, .h = 5, .w = 5, .o = 4, .k = 3,
          .stride = 1, .padding = 1, .relu = true, .bias = true)
CONV_CASE(conv_blocked, .n = 1, .c = 16, .h = 3, .w = 4, .o = 16, .k = 2,
          .stride = 1, .relu = true, .bias = true)

/* Two convolutions, element-wise operations between: layouts all the way. */
static ls_tensor *run_chain(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    const ls_conv2d_options options = {.padding = 1};
    ls_tensor *h = ls_conv2d(tape, in[0], in[1], NULL, &options);
    h = ls_add(tape, h, ls_scale(tape, h, 0.5));
    h = ls_mul(tape, ls_sub(tape, h, in[2]), h);
    return ls_max_pool2d(tape, h, 2, NULL);
}

enum { CHAIN_C = 16, CHAIN_H = 4, CHAIN_W = 4 };

static void ref_chain(double *y, const double *const *in, int use)
{
    (void)use;
    static double h[CHAIN_C * CHAIN_H * CHAIN_W];
    const conv_shape s = {.n = 1,
                          .c = CHAIN_C,
                          .h = CHAIN_H,
                          .w = CHAIN_W,
                          .o = CHAIN_C,
                          .k = 3,
                          .stride = 1,
                          .padding = 1};
    conv(h, in, &s);
    for (int i = 0; i < CHAIN_C * CHAIN_H * CHAIN_W; i++)
        h[i] = (1.5 * h[i] - in[2][i]) * 1.5 * h[i];
    for (int c = 0; c < CHAIN_C; c++) {
        for (int p = 0; p < 4; p++) {
            const double *at = h + c * 16 + p / 2 * 2 * CHAIN_W + p % 2 * 2;
            y[c * 4 + p] = fmax(fmax(at[0], at[1]), fmax(at[4], at[5]));
        }
    }
}

static ls_tensor *run_max_pool(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    return ls_max_pool2d(tape, in[0], 2, NULL);
}

/* (1, 2, 5, 7) -> (1, 2, 2, 3): a row and a column are dropped. */
static void ref_max_pool(double *y, const double *const *in, int use)
{
    (void)use;
    for (int i = 0; i < 12; i++) {
        const int c = i / 6, row = i % 6 / 3 * 2, column = i % 3 * 2;
        const double *at = in[0] + c * 35 + row * 7 + column;
        y[i] = fmax(fmax(at[0], at[1]), fmax(at[7], at[8]));
    }
}

/* ---- batch normalisation ------------------------------------------------- */

enum { BN_ROWS = 6, BN_COLUMNS = 5 };

static ls_tensor *batch_norm(ls_tape *tape, ls_tensor *x, ls_tensor *weight,
                             ls_tensor *bias)
{
    const int64_t columns = BN_COLUMNS;
    ls_tensor *mean = NULL, *var = NULL;
    assert_ok(ls_tensor_zeros(&mean, LS_F32, 1, &columns));
    assert_ok(ls_tensor_zeros(&var, LS_F32, 1, &columns));
    const ls_batch_norm_args args = {.weight = weight,
                                     .bias = bias,
                                     .running_mean = mean,
                                     .running_var = var,
                                     .eps = 1e-3,
                                     .momentum = 0.1};
    ls_tensor *y = ls_batch_norm(tape, x, &args);
    ls_tensor_free(&mean);
    ls_tensor_free(&var);
    return y;
}

static ls_tensor *run_batch_norm(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    return batch_norm(tape, in[0], in[1], in[2]);
}

static ls_tensor *run_batch_norm_plain(ls_tape *tape, ls_tensor *const *in,
                                       int use)
{
    (void)use;
    return batch_norm(tape, in[0], NULL, NULL);
}

static void normalise(double *y, const double *x)
{
    for (int c = 0; c < BN_COLUMNS; c++) {
        double mean = 0.0, var = 0.0;
        for (int r = 0; r < BN_ROWS; r++)
            mean += x[r * BN_COLUMNS + c] / BN_ROWS;
        for (int r = 0; r < BN_ROWS; r++)
            var += pow(x[r * BN_COLUMNS + c] - mean, 2.0) / BN_ROWS;
        for (int r = 0; r < BN_ROWS; r++)
            y[r * BN_COLUMNS + c] =
                (x[r * BN_COLUMNS + c] - mean) / sqrt(var + 1e-3);
    }
}

static void ref_batch_norm_plain(double *y, const double *const *in, int use)
{
    (void)use;
    normalise(y, in[0]);
}

static void ref_batch_norm(double *y, const double *const *in, int use)
{
    (void)use;
    normalise(y, in[0]);
    for (int i = 0; i < BN_ROWS * BN_COLUMNS; i++)
        y[i] = y[i] * in[1][i % BN_COLUMNS] + in[2][i % BN_COLUMNS];
}

/* ---- the cases ----------------------------------------------------------- */

#define FUNCTIONS(name) .run = run_##name, .reference = ref_##name

const gradcheck_case gradcheck_layers[] = {
    {"matmul", "4 x 7 x 5", .n_inputs = 2,
     .in = {{2, {MM_M, MM_K}, FILL_UNIFORM}, {2, {MM_K, MM_N}, FILL_UNIFORM}},
     FUNCTIONS(matmul), .terms = MM_K, .gain = 1},
    {"linear", "with bias", .n_inputs = 3,
     .in = {{3, {2, 3, 7}, FILL_UNIFORM},
            {2, {5, 7}, FILL_UNIFORM},
            {1, {5}, FILL_UNIFORM}},
     FUNCTIONS(linear), .terms = 8, .gain = 1},
    {"linear", "without bias", .n_inputs = 2,
     .in = {{3, {2, 3, 7}, FILL_UNIFORM}, {2, {5, 7}, FILL_UNIFORM}},
     FUNCTIONS(linear_no_bias), .terms = 7, .gain = 1},
    /* The longest sum is over c k k, o k k or n oh ow products. */
    {"conv2d", "small", .n_inputs = 3,
     .in = {{4, {2, 3, 5, 6}, FILL_UNIFORM},
            {4, {4, 3, 3, 3}, FILL_UNIFORM},
            {1, {4}, FILL_UNIFORM}},
     FUNCTIONS(conv_small), .terms = 36, .gain = 1},
    {"conv2d", "strided", .n_inputs = 2,
     .in = {{4, {2, 2, 7, 5}, FILL_UNIFORM}, {4, {3, 2, 3, 3}, FILL_UNIFORM}},
     FUNCTIONS(conv_strided), .terms = 27, .gain = 1},
    {"conv2d", "relu", .n_inputs = 3,
     .in = {{4, {2, 3, 5, 5}, FILL_GRID},
            {4, {4, 3, 3, 3}, FILL_GRID},
            {1, {4}, FILL_OFF_GRID}},
     FUNCTIONS(conv_relu), .terms = 50, .gain = 1},
    {"conv2d", "blocked", .n_inputs = 3,
     .in = {{4, {1, 16, 3, 4}, FILL_GRID},
            {4, {16, 16, 2, 2}, FILL_GRID},
            {1, {16}, FILL_OFF_GRID}},
     FUNCTIONS(conv_blocked), .terms = 65, .gain = 1},
    /* Two factors of up to 1.5 * 144 each, sums of 144 products. */
    {"conv2d", "chain of layouts", .n_inputs = 3,
     .in = {{4, {1, CHAIN_C, CHAIN_H, CHAIN_W}, FILL_UNIFORM},
            {4, {CHAIN_C, CHAIN_C, 3, 3}, FILL_UNIFORM},
            {4, {1, CHAIN_C, CHAIN_H, CHAIN_W}, FILL_UNIFORM}},
     FUNCTIONS(chain), .terms = 144, .gain = 4},
    {"max_pool2d", "with remainder", .n_inputs = 1,
     .in = {{4, {1, 2, 5, 7}, FILL_DISTINCT}}, FUNCTIONS(max_pool), .terms = 1,
     .gain = 1},
    /* |xhat| <= sqrt(rows); 1 / deviation is at most 3 for these inputs. */
    {"batch_norm", "affine", .n_inputs = 3,
     .in = {{2, {BN_ROWS, BN_COLUMNS}, FILL_UNIFORM},
            {1, {BN_COLUMNS}, FILL_UNIFORM},
            {1, {BN_COLUMNS}, FILL_UNIFORM}},
     FUNCTIONS(batch_norm), .terms = BN_ROWS, .gain = 8},
    {"batch_norm", "plain", .n_inputs = 1,
     .in = {{2, {BN_ROWS, BN_COLUMNS}, FILL_UNIFORM}},
     FUNCTIONS(batch_norm_plain), .terms = BN_ROWS, .gain = 8},
};
const size_t gradcheck_layers_count = TEST_COUNT(gradcheck_layers);
