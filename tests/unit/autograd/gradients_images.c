/*
 * Gradient checks of convolutions with options, pooling and normalisation of
 * images, in plain and in blocked layouts.
 */
#include <math.h>

#include "gradcheck.h"

/* ---- convolutions -------------------------------------------------------- */

typedef struct conv_shape {
    int n, c, h, w, o, k, stride, padding, dilation, groups;
} conv_shape;

static int conv_extent(int in, const conv_shape *s)
{
    return (in + 2 * s->padding - s->dilation * (s->k - 1) - 1) / s->stride + 1;
}

static double conv_at(const conv_shape *s, const double *const *in, int n,
                      int o, int oy, int ox)
{
    const int depth = s->c / s->groups, first = o / (s->o / s->groups) * depth;
    double sum = 0;
    for (int i = 0; i < depth * s->k * s->k; i++) {
        const int c = i / (s->k * s->k), tap = i % (s->k * s->k);
        const int y = oy * s->stride + tap / s->k * s->dilation - s->padding;
        const int x = ox * s->stride + tap % s->k * s->dilation - s->padding;
        if (y >= 0 && y < s->h && x >= 0 && x < s->w)
            sum += in[0][((n * s->c + first + c) * s->h + y) * s->w + x] *
                   in[1][(o * depth + c) * s->k * s->k + tap];
    }
    return sum;
}

static void conv(double *y, const double *const *in, const conv_shape *s)
{
    const int oh = conv_extent(s->h, s), ow = conv_extent(s->w, s);
    for (int i = 0; i < s->n * s->o * oh * ow; i++)
        y[i] = conv_at(s, in, i / (s->o * oh * ow), i / (oh * ow) % s->o,
                       i / ow % oh, i % ow);
}

#define CONV_CASE(name, ...)                                                   \
    static const conv_shape name = {__VA_ARGS__};                              \
    static ls_tensor *run_##name(ls_tape *tape, ls_tensor *const *in, int use) \
    {                                                                          \
        (void)use;                                                             \
        return ls_conv2d(tape, in[0], in[1], NULL,                             \
                         &(ls_conv2d_options){.stride = name.stride,           \
                                              .padding = name.padding,         \
                                              .dilation = name.dilation,       \
                                              .groups = name.groups});         \
    }                                                                          \
    static void ref_##name(double *y, const double *const *in, int use)        \
    {                                                                          \
        (void)use;                                                             \
        conv(y, in, &name);                                                    \
    }

CONV_CASE(dilated, .n = 2, .c = 3, .h = 7, .w = 6, .o = 4, .k = 3, .stride = 1,
          .padding = 2, .dilation = 2, .groups = 1)
CONV_CASE(dilated_strided, .n = 1, .c = 16, .h = 6, .w = 7, .o = 16, .k = 2,
          .stride = 2, .padding = 1, .dilation = 3, .groups = 1)
CONV_CASE(grouped, .n = 2, .c = 4, .h = 5, .w = 5, .o = 6, .k = 3, .stride = 2,
          .padding = 1, .dilation = 1, .groups = 2)
CONV_CASE(grouped_blocked, .n = 1, .c = 32, .h = 3, .w = 3, .o = 32, .k = 2,
          .stride = 1, .padding = 1, .dilation = 1, .groups = 2)
CONV_CASE(depthwise, .n = 2, .c = 5, .h = 4, .w = 6, .o = 5, .k = 3,
          .stride = 1, .padding = 1, .dilation = 1, .groups = 5)
CONV_CASE(depthwise_blocked, .n = 1, .c = 16, .h = 5, .w = 5, .o = 16, .k = 3,
          .stride = 2, .padding = 1, .dilation = 1, .groups = 16)
CONV_CASE(multiplied, .n = 1, .c = 3, .h = 4, .w = 4, .o = 6, .k = 2,
          .stride = 1, .padding = 0, .dilation = 2, .groups = 3)
CONV_CASE(pointwise_strided, .n = 2, .c = 16, .h = 5, .w = 4, .o = 16, .k = 1,
          .stride = 2, .padding = 0, .dilation = 1, .groups = 1)

/* ---- pooling ------------------------------------------------------------- */

static ls_tensor *run_global_avg(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    return ls_global_avg_pool2d(tape, in[0]);
}

/* (3, 5, 3, 7) -> (3, 5) */
static void ref_global_avg(double *y, const double *const *in, int use)
{
    (void)use;
    for (int i = 0; i < 15; i++) {
        y[i] = 0;
        for (int p = 0; p < 21; p++)
            y[i] += in[0][i * 21 + p] / 21;
    }
}

/* A convolution with 1 x 1 filters before it: a blocked layout. */
static ls_tensor *mixed_channels(ls_tape *tape, ls_tensor *x, ls_tensor *w)
{
    return ls_conv2d(tape, x, w, NULL, NULL);
}

enum { BLOCK_N = 2, BLOCK_C = 16, BLOCK_P = 6 };

static void ref_mixed_channels(double *h, const double *x, const double *w)
{
    for (int i = 0; i < BLOCK_N * BLOCK_C * BLOCK_P; i++) {
        const int n = i / (BLOCK_C * BLOCK_P), o = i / BLOCK_P % BLOCK_C;
        h[i] = 0;
        for (int c = 0; c < BLOCK_C; c++)
            h[i] += w[o * BLOCK_C + c] *
                    x[(n * BLOCK_C + c) * BLOCK_P + i % BLOCK_P];
    }
}

/* (2, 3, 5, 6), windows of 3, stride 2, padding 1: (2, 3, 3, 3) */
static ls_tensor *run_avg(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    return ls_avg_pool2d(tape, in[0], 3,
                         &(ls_pool2d_options){.stride = 2, .padding = 1});
}

static ls_tensor *run_max(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    return ls_max_pool2d(tape, in[0], 3,
                         &(ls_pool2d_options){.stride = 2, .padding = 1});
}

static void pool(double *y, const double *x, bool max)
{
    for (int i = 0; i < 54; i++) {
        y[i] = max ? -INFINITY : 0;
        for (int t = 0; t < 9; t++) {
            const int row = i / 3 % 3 * 2 - 1 + t / 3;
            const int column = i % 3 * 2 - 1 + t % 3;
            if (row < 0 || row >= 5 || column < 0 || column >= 6)
                continue;
            const double v = x[(i / 9 * 5 + row) * 6 + column];
            y[i] = max ? fmax(y[i], v) : y[i] + v / 9;
        }
    }
}

static void ref_avg(double *y, const double *const *in, int use)
{
    (void)use;
    pool(y, in[0], false);
}

static void ref_max(double *y, const double *const *in, int use)
{
    (void)use;
    pool(y, in[0], true);
}

/* Of a blocked layout, (2, 16, 2, 3) to (2, 16, 1, 2). */
static ls_tensor *run_avg_blocked(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    return ls_avg_pool2d(tape, mixed_channels(tape, in[0], in[1]), 2,
                         &(ls_pool2d_options){.stride = 1});
}

static void ref_avg_blocked(double *y, const double *const *in, int use)
{
    (void)use;
    static double h[BLOCK_N * BLOCK_C * BLOCK_P];
    ref_mixed_channels(h, in[0], in[1]);
    for (int i = 0; i < BLOCK_N * BLOCK_C * 2; i++) {
        const double *at = h + i / 2 * BLOCK_P + i % 2;
        y[i] = (at[0] + at[1] + at[3] + at[4]) / 4;
    }
}

static ls_tensor *run_global_avg_blocked(ls_tape *tape, ls_tensor *const *in,
                                         int use)
{
    (void)use;
    return ls_global_avg_pool2d(tape, mixed_channels(tape, in[0], in[1]));
}

static void ref_global_avg_blocked(double *y, const double *const *in, int use)
{
    (void)use;
    static double h[BLOCK_N * BLOCK_C * BLOCK_P];
    ref_mixed_channels(h, in[0], in[1]);
    for (int i = 0; i < BLOCK_N * BLOCK_C; i++) {
        y[i] = 0;
        for (int p = 0; p < BLOCK_P; p++)
            y[i] += h[i * BLOCK_P + p] / BLOCK_P;
    }
}

/* ---- batch normalisation ------------------------------------------------- */

static ls_tensor *batch_norm(ls_tape *tape, ls_tensor *x, ls_tensor *weight,
                             ls_tensor *bias, ls_tensor *residual, bool relu)
{
    const int64_t channels = ls_tensor_shape(x)[1];
    ls_tensor *mean = NULL, *var = NULL;
    assert_ok(ls_tensor_zeros(&mean, LS_F32, 1, &channels));
    assert_ok(ls_tensor_zeros(&var, LS_F32, 1, &channels));
    const ls_batch_norm_args args = {.weight = weight,
                                     .bias = bias,
                                     .running_mean = mean,
                                     .running_var = var,
                                     .eps = 1e-3,
                                     .momentum = 0.1,
                                     .relu = relu,
                                     .residual = residual};
    ls_tensor *y = ls_batch_norm(tape, x, &args);
    ls_tensor_free(&mean);
    ls_tensor_free(&var);
    return y;
}

/* y = (x - mean) / deviation of the n c p elements, over n and p. */
static void normalise(double *y, const double *x, int n, int c, int p)
{
    for (int k = 0; k < c; k++) {
        double mean = 0.0, var = 0.0;
        for (int i = 0; i < n * p; i++)
            mean += x[(i / p * c + k) * p + i % p] / (n * p);
        for (int i = 0; i < n * p; i++)
            var += pow(x[(i / p * c + k) * p + i % p] - mean, 2.0) / (n * p);
        for (int i = 0; i < n * p; i++) {
            const int at = (i / p * c + k) * p + i % p;
            y[at] = (x[at] - mean) / sqrt(var + 1e-3);
        }
    }
}

/* (3, 3, 2, 5), weight, bias */
static ls_tensor *run_bn(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    return batch_norm(tape, in[0], in[1], in[2], NULL, false);
}

static void ref_bn(double *y, const double *const *in, int use)
{
    (void)use;
    normalise(y, in[0], 3, 3, 10);
    for (int i = 0; i < 90; i++)
        y[i] = y[i] * in[1][i / 10 % 3] + in[2][i / 10 % 3];
}

/* (3, 2, 70): a row of lanes and a rest */
static ls_tensor *run_bn_long(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    return batch_norm(tape, in[0], in[1], in[2], NULL, true);
}

static void ref_bn_long(double *y, const double *const *in, int use)
{
    (void)use;
    normalise(y, in[0], 3, 2, 70);
    for (int i = 0; i < 420; i++)
        y[i] = fmax(y[i] * in[1][i / 70 % 2] + in[2][i / 70 % 2], 0);
}

/* (5, 3): a matrix with a residual, and relu */
static ls_tensor *run_bn_matrix(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    return batch_norm(tape, in[0], in[1], NULL, in[2], true);
}

static void ref_bn_matrix(double *y, const double *const *in, int use)
{
    (void)use;
    normalise(y, in[0], 5, 3, 1);
    for (int i = 0; i < 15; i++)
        y[i] = fmax(y[i] * in[1][i % 3] + in[2][i], 0);
}

/* In a blocked layout, the residual being plain, with relu or without. */
static ls_tensor *run_bn_block(ls_tape *tape, ls_tensor *const *in, int use)
{
    return batch_norm(tape, mixed_channels(tape, in[0], in[1]), NULL, NULL,
                      in[2], use == 0);
}

static void ref_bn_block(double *y, const double *const *in, int use)
{
    static double h[BLOCK_N * BLOCK_C * BLOCK_P];
    ref_mixed_channels(h, in[0], in[1]);
    normalise(y, h, BLOCK_N, BLOCK_C, BLOCK_P);
    for (int i = 0; i < BLOCK_N * BLOCK_C * BLOCK_P; i++) {
        y[i] += in[2][i];
        if (use == 0)
            y[i] = fmax(y[i], 0);
    }
}

/* The normalised tensor is also the addend, and the input of another layer. */
static ls_tensor *run_bn_loop(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    ls_tensor *h = mixed_channels(tape, in[0], in[1]);
    h = batch_norm(tape, h, in[2], NULL, h, false);
    return batch_norm(tape, h, NULL, NULL, NULL, true);
}

static void ref_bn_loop(double *y, const double *const *in, int use)
{
    (void)use;
    static double h[BLOCK_N * BLOCK_C * BLOCK_P];
    ref_mixed_channels(h, in[0], in[1]);
    normalise(y, h, BLOCK_N, BLOCK_C, BLOCK_P);
    for (int i = 0; i < BLOCK_N * BLOCK_C * BLOCK_P; i++)
        h[i] += y[i] * in[2][i / BLOCK_P % BLOCK_C];
    normalise(y, h, BLOCK_N, BLOCK_C, BLOCK_P);
    for (int i = 0; i < BLOCK_N * BLOCK_C * BLOCK_P; i++)
        y[i] = fmax(y[i], 0);
}

/* ---- group normalisation ------------------------------------------------- */

/* Images of groups: (n groups, 1, channels pixels / groups) of batch_norm. */
static void normalise_groups(double *y, const double *x, int groups, int size)
{
    for (int g = 0; g < groups; g++)
        normalise(y + g * size, x + g * size, 1, 1, size);
}

static ls_tensor *run_gn(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    return ls_group_norm(tape, in[0], 2, in[1], in[2], 1e-3);
}

/* (2, 6, 3, 5), two groups */
static void ref_gn(double *y, const double *const *in, int use)
{
    (void)use;
    normalise_groups(y, in[0], 4, 45);
    for (int i = 0; i < 180; i++)
        y[i] = y[i] * in[1][i / 15 % 6] + in[2][i / 15 % 6];
}

/* (5, 6): without pixels, a matrix */
static ls_tensor *run_gn_matrix(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    return ls_group_norm(tape, in[0], 2, in[1], in[2], 1e-3);
}

static void ref_gn_matrix(double *y, const double *const *in, int use)
{
    (void)use;
    normalise_groups(y, in[0], 10, 3);
    for (int i = 0; i < 30; i++)
        y[i] = y[i] * in[1][i % 6] + in[2][i % 6];
}

/* Groups of four channels of a block of 16. */
static ls_tensor *run_gn_blocked(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    return ls_group_norm(tape, mixed_channels(tape, in[0], in[1]), 4, in[2],
                         NULL, 1e-3);
}

static void ref_gn_blocked(double *y, const double *const *in, int use)
{
    (void)use;
    static double h[BLOCK_N * BLOCK_C * BLOCK_P];
    ref_mixed_channels(h, in[0], in[1]);
    normalise_groups(y, h, BLOCK_N * 4, BLOCK_C / 4 * BLOCK_P);
    for (int i = 0; i < BLOCK_N * BLOCK_C * BLOCK_P; i++)
        y[i] *= in[2][i / BLOCK_P % BLOCK_C];
}

/* ---- the cases ----------------------------------------------------------- */

#define FUNCTIONS(name) .run = run_##name, .reference = ref_##name
#define CONV(name, text, c_, h_, w_, o_, n_, depth_, k_, terms_)               \
    {                                                                          \
        "conv2d", text, .n_inputs = 2,                                         \
                        .in = {{4, {n_, c_, h_, w_}, FILL_UNIFORM},            \
                               {4, {o_, depth_, k_, k_}, FILL_UNIFORM}},       \
                        FUNCTIONS(name), .terms = terms_, .gain = 1            \
    }

const gradcheck_case gradcheck_images[] = {
    CONV(dilated, "dilated", 3, 7, 6, 4, 2, 3, 3, 84),
    CONV(dilated_strided, "dilated, strided", 16, 6, 7, 16, 1, 16, 2, 64),
    CONV(grouped, "grouped, strided", 4, 5, 5, 6, 2, 2, 3, 27),
    CONV(grouped_blocked, "grouped, blocked", 32, 3, 3, 32, 1, 16, 2, 64),
    CONV(depthwise, "depthwise", 5, 4, 6, 5, 2, 1, 3, 48),
    CONV(depthwise_blocked, "depthwise, blocked", 16, 5, 5, 16, 1, 1, 3, 25),
    CONV(multiplied, "two filters a channel", 3, 4, 4, 6, 1, 1, 2, 16),
    CONV(pointwise_strided, "1 x 1, strided", 16, 5, 4, 16, 2, 16, 1, 24),
    {"global_avg_pool2d", "plain", .n_inputs = 1,
     .in = {{4, {3, 5, 3, 7}, FILL_UNIFORM}}, FUNCTIONS(global_avg),
     .terms = 21, .gain = 1},
    {"global_avg_pool2d", "blocked", .n_inputs = 2,
     .in = {{4, {BLOCK_N, BLOCK_C, 2, 3}, FILL_UNIFORM},
            {4, {BLOCK_C, BLOCK_C, 1, 1}, FILL_UNIFORM}},
     FUNCTIONS(global_avg_blocked), .terms = 32, .gain = 1},
    {"avg_pool2d", "overlapping, padded", .n_inputs = 1,
     .in = {{4, {2, 3, 5, 6}, FILL_UNIFORM}}, FUNCTIONS(avg), .terms = 9,
     .gain = 1},
    {"avg_pool2d", "blocked", .n_inputs = 2,
     .in = {{4, {BLOCK_N, BLOCK_C, 2, 3}, FILL_UNIFORM},
            {4, {BLOCK_C, BLOCK_C, 1, 1}, FILL_UNIFORM}},
     FUNCTIONS(avg_blocked), .terms = 32, .gain = 1},
    {"max_window2d", "overlapping, padded", .n_inputs = 1,
     .in = {{4, {2, 3, 5, 6}, FILL_DISTINCT}}, FUNCTIONS(max), .terms = 4,
     .gain = 1},
    {"group_norm", "affine", .n_inputs = 3,
     .in = {{4, {2, 6, 3, 5}, FILL_UNIFORM},
            {1, {6}, FILL_UNIFORM},
            {1, {6}, FILL_UNIFORM}},
     FUNCTIONS(gn), .terms = 45, .gain = 8},
    {"group_norm", "a matrix", .n_inputs = 3,
     .in = {{2, {5, 6}, FILL_UNIFORM},
            {1, {6}, FILL_UNIFORM},
            {1, {6}, FILL_UNIFORM}},
     FUNCTIONS(gn_matrix), .terms = 30, .gain = 32},
    {"group_norm", "blocked", .n_inputs = 3,
     .in = {{4, {BLOCK_N, BLOCK_C, 2, 3}, FILL_UNIFORM},
            {4, {BLOCK_C, BLOCK_C, 1, 1}, FILL_UNIFORM},
            {1, {BLOCK_C}, FILL_UNIFORM}},
     FUNCTIONS(gn_blocked), .terms = 32, .gain = 8},
    /* As for matrices: |xhat| <= sqrt(numbers), 1 / deviation is at most 3. */
    {"batch_norm_images", "affine", .n_inputs = 3,
     .in = {{4, {3, 3, 2, 5}, FILL_UNIFORM},
            {1, {3}, FILL_UNIFORM},
            {1, {3}, FILL_UNIFORM}},
     FUNCTIONS(bn), .terms = 30, .gain = 8},
    {"batch_norm_images", "three dimensions, relu", .n_inputs = 3,
     .in = {{3, {3, 2, 70}, FILL_UNIFORM},
            {1, {2}, FILL_UNIFORM},
            {1, {2}, FILL_UNIFORM}},
     FUNCTIONS(bn_long), .terms = 210, .gain = 8},
    {"batch_norm_images", "a matrix with residual and relu", .n_inputs = 3,
     .in = {{2, {5, 3}, FILL_UNIFORM},
            {1, {3}, FILL_UNIFORM},
            {2, {5, 3}, FILL_UNIFORM}},
     FUNCTIONS(bn_matrix), .terms = 15, .gain = 8},
    {"batch_norm_images", "blocked, residual, relu", .n_inputs = 3,
     .in = {{4, {BLOCK_N, BLOCK_C, 2, 3}, FILL_UNIFORM},
            {4, {BLOCK_C, BLOCK_C, 1, 1}, FILL_UNIFORM},
            {4, {BLOCK_N, BLOCK_C, 2, 3}, FILL_UNIFORM}},
     FUNCTIONS(bn_block), .terms = 32, .gain = 8},
    {"batch_norm_images", "its own residual", .n_inputs = 3,
     .in = {{4, {BLOCK_N, BLOCK_C, 2, 3}, FILL_UNIFORM},
            {4, {BLOCK_C, BLOCK_C, 1, 1}, FILL_UNIFORM},
            {1, {BLOCK_C}, FILL_UNIFORM}},
     FUNCTIONS(bn_loop), .terms = 32, .gain = 16},
};
const size_t gradcheck_images_count = TEST_COUNT(gradcheck_images);
