/* Gradient checks of element-wise operations, sums, losses, views, types. */
#include <math.h>

#include "base/rng.h"
#include "gradcheck.h"

/* ---- element-wise -------------------------------------------------------- */

#define EW 30

static ls_tensor *run_add(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    return ls_add(tape, in[0], in[1]);
}

static void ref_add(double *y, const double *const *in, int use)
{
    (void)use;
    for (int i = 0; i < EW; i++)
        y[i] = in[0][i] + in[1][i];
}

static ls_tensor *run_sub(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    return ls_sub(tape, in[0], in[1]);
}

static void ref_sub(double *y, const double *const *in, int use)
{
    (void)use;
    for (int i = 0; i < EW; i++)
        y[i] = in[0][i] - in[1][i];
}

static ls_tensor *run_mul(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    return ls_mul(tape, in[0], in[1]);
}

static void ref_mul(double *y, const double *const *in, int use)
{
    (void)use;
    for (int i = 0; i < EW; i++)
        y[i] = in[0][i] * in[1][i];
}

static ls_tensor *run_square(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    return ls_mul(tape, in[0], in[0]);
}

static void ref_square(double *y, const double *const *in, int use)
{
    (void)use;
    for (int i = 0; i < EW; i++)
        y[i] = in[0][i] * in[0][i];
}

static ls_tensor *run_scale(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    return ls_scale(tape, in[0], -0.7);
}

static void ref_scale(double *y, const double *const *in, int use)
{
    (void)use;
    for (int i = 0; i < EW; i++)
        y[i] = -0.7 * in[0][i];
}

/* Powers of 0.5 to 2.5, and of both signs. */
static ls_tensor *run_pow(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    ls_tensor *shift = ls_tape_output(tape, LS_F32, 0, NULL);
    *(float *)tensor_data(shift) = 1.5F;
    return ls_pow(tape, ls_add(tape, in[0], shift), -1.25);
}

static void ref_pow(double *y, const double *const *in, int use)
{
    (void)use;
    for (int i = 0; i < EW; i++)
        y[i] = pow(in[0][i] + 1.5, -1.25);
}

static ls_tensor *run_pow_square(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    return ls_pow(tape, in[0], 2.0);
}

static ls_tensor *run_pow_cube(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    return ls_pow(tape, in[0], 3.0);
}

static void ref_pow_cube(double *y, const double *const *in, int use)
{
    (void)use;
    for (int i = 0; i < EW; i++)
        y[i] = in[0][i] * in[0][i] * in[0][i];
}

static ls_tensor *run_clamp(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    return ls_clamp(tape, in[0], -0.405, 0.255);
}

static void ref_clamp(double *y, const double *const *in, int use)
{
    (void)use;
    for (int i = 0; i < EW; i++)
        y[i] = fmin(fmax(in[0][i], -0.405), 0.255);
}

static ls_tensor *run_relu(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    return ls_relu(tape, in[0]);
}

static void ref_relu(double *y, const double *const *in, int use)
{
    (void)use;
    for (int i = 0; i < EW; i++)
        y[i] = fmax(in[0][i], 0.0);
}

/* Arguments of both signs, none of them 0. */
#define OF_BOTH_SIGNS(name, exact)                                             \
    static ls_tensor *run_##name(ls_tape *tape, ls_tensor *const *in, int use) \
    {                                                                          \
        (void)use;                                                             \
        return ls_##name(tape, in[0]);                                         \
    }                                                                          \
    static void ref_##name(double *y, const double *const *in, int use)        \
    {                                                                          \
        (void)use;                                                             \
        for (int i = 0; i < EW; i++) {                                         \
            const double x = in[0][i];                                         \
            y[i] = (exact);                                                    \
        }                                                                      \
    }

OF_BOTH_SIGNS(neg, -x)
OF_BOTH_SIGNS(abs, fabs(x))
OF_BOTH_SIGNS(silu, x / (1.0 + exp(-x)))
OF_BOTH_SIGNS(gelu_erf, 0.5 * x * (1.0 + erf(x / sqrt(2.0))))

/* An output that has two readers: its gradient is a sum. */
static ls_tensor *run_relu_read_twice(ls_tape *tape, ls_tensor *const *in,
                                      int use)
{
    (void)use;
    ls_tensor *y = ls_relu(tape, in[0]);
    return ls_add(tape, y, ls_mul(tape, y, y));
}

static void ref_relu_read_twice(double *y, const double *const *in, int use)
{
    (void)use;
    for (int i = 0; i < EW; i++) {
        const double r = fmax(in[0][i], 0.0);
        y[i] = r + r * r;
    }
}

/* Arguments of 0.5 to 2.5, where all of these are smooth. */
#define FUNCTION(name, exact)                                                  \
    static ls_tensor *run_##name(ls_tape *tape, ls_tensor *const *in, int use) \
    {                                                                          \
        (void)use;                                                             \
        ls_tensor *shift = ls_tape_output(tape, LS_F32, 0, NULL);              \
        *(float *)tensor_data(shift) = 1.5F;                                   \
        return ls_##name(tape, ls_add(tape, in[0], shift));                    \
    }                                                                          \
    static void ref_##name(double *y, const double *const *in, int use)        \
    {                                                                          \
        (void)use;                                                             \
        for (int i = 0; i < EW; i++) {                                         \
            const double x = in[0][i] + 1.5;                                   \
            y[i] = (exact);                                                    \
        }                                                                      \
    }

FUNCTION(exp, exp(x))
FUNCTION(log, log(x))
FUNCTION(sqrt, sqrt(x))
FUNCTION(tanh, tanh(x))
FUNCTION(sigmoid, 1.0 / (1.0 + exp(-x)))

/* The mask is that of the stream, computed here one element at a time. */
static ls_tensor *run_dropout(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    return ls_dropout(tape, in[0], 0.25);
}

static void ref_dropout(double *y, const double *const *in, int use)
{
    const lsi_rng_key key = {.seed = 1, .stream = 2};
    const uint64_t sub = (UINT64_C(3) << 24) + (uint64_t)use;
    for (uint64_t i = 0; i < EW; i++) {
        const bool keep = lsi_rng_u32(key, sub, i) >= (UINT32_C(1) << 30);
        y[i] = keep ? in[0][i] / 0.75 : 0.0;
    }
}

static ls_tensor *run_no_dropout(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    return ls_dropout(tape, in[0], 0.0);
}

static void ref_identity(double *y, const double *const *in, int use)
{
    (void)use;
    for (int i = 0; i < EW; i++)
        y[i] = in[0][i];
}

/* ---- sums and losses ----------------------------------------------------- */

static ls_tensor *run_sum(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    return ls_sum(tape, in[0]);
}

static void ref_sum(double *y, const double *const *in, int use)
{
    (void)use;
    y[0] = 0.0;
    for (int i = 0; i < EW; i++)
        y[0] += in[0][i];
}

static ls_tensor *run_mean(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    return ls_mean(tape, in[0]);
}

static void ref_mean(double *y, const double *const *in, int use)
{
    ref_sum(y, in, use);
    y[0] /= EW;
}

static ls_tensor *run_mse(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    return ls_mse_loss(tape, in[0], in[1]);
}

static void ref_mse(double *y, const double *const *in, int use)
{
    (void)use;
    y[0] = 0.0;
    for (int i = 0; i < EW; i++)
        y[0] += (in[0][i] - in[1][i]) * (in[0][i] - in[1][i]) / EW;
}

static ls_tensor *run_bce(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    return ls_bce_with_logits(tape, in[0], in[1]);
}

static void ref_bce(double *y, const double *const *in, int use)
{
    (void)use;
    y[0] = 0.0;
    for (int i = 0; i < EW; i++) {
        const double s = 1.0 / (1.0 + exp(-in[0][i])), t = in[1][i];
        y[0] -= (t * log(s) + (1.0 - t) * log(1.0 - s)) / EW;
    }
}

enum { CE_ROWS = 5, CE_CLASSES = 7 };
static const int64_t ce_labels[CE_ROWS] = {6, 0, 3, 3, 1};

static ls_tensor *run_cross_entropy(ls_tape *tape, ls_tensor *const *in,
                                    int use)
{
    (void)use;
    const int64_t rows = CE_ROWS;
    ls_tensor *labels = ls_tape_output(tape, LS_I64, 1, &rows);
    memcpy(tensor_data(labels), ce_labels, sizeof ce_labels);
    return ls_cross_entropy(tape, in[0], labels, NULL);
}

static void ref_cross_entropy(double *y, const double *const *in, int use)
{
    (void)use;
    y[0] = 0.0;
    for (int r = 0; r < CE_ROWS; r++) {
        const double *x = in[0] + r * CE_CLASSES;
        double sum = 0.0;
        for (int c = 0; c < CE_CLASSES; c++)
            sum += exp(x[c]);
        y[0] += (log(sum) - x[ce_labels[r]]) / CE_ROWS;
    }
}

/* ---- views and types ----------------------------------------------------- */

static ls_tensor *run_reshape(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    return ls_reshape(tape, in[0], 2, (const int64_t[]){-1, 5});
}

static ls_tensor *run_flatten(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    ls_tensor *y = ls_flatten(tape, in[0]);
    assert_int_equal(ls_tensor_ndim(y), 2);
    assert_int_equal(ls_tensor_shape(y)[1], 15);
    return y;
}

/* (2, 3, 5), elements 1..2 of dimension 1. */
static ls_tensor *run_narrow(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    return ls_narrow(tape, in[0], 1, 1, 3);
}

static void ref_narrow(double *y, const double *const *in, int use)
{
    (void)use;
    for (int n = 0; n < 2; n++) {
        for (int i = 0; i < 10; i++)
            y[n * 10 + i] = in[0][n * 15 + 5 + i];
    }
}

/* Parts that overlap, of the last dimension. */
static ls_tensor *run_narrow_twice(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    ls_tensor *left = ls_narrow(tape, in[0], 2, 0, 4);
    return ls_mul(tape, left, ls_narrow(tape, in[0], 2, 1, 5));
}

static void ref_narrow_twice(double *y, const double *const *in, int use)
{
    (void)use;
    for (int row = 0; row < 6; row++) {
        for (int i = 0; i < 4; i++)
            y[row * 4 + i] = in[0][row * 5 + i] * in[0][row * 5 + i + 1];
    }
}

static ls_tensor *run_transpose(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    return ls_transpose(tape, in[0], 0, 2);
}

static void ref_transpose(double *y, const double *const *in, int use)
{
    (void)use;
    for (int a = 0; a < 2; a++) {
        for (int b = 0; b < 3; b++) {
            for (int c = 0; c < 5; c++)
                y[(c * 3 + b) * 2 + a] = in[0][(a * 3 + b) * 5 + c];
        }
    }
}

/* To bits significant bits, ties to even (the default rounding mode). */
static double round_to(double x, int bits)
{
    int exponent = 0;
    const double fraction = frexp(x, &exponent);
    return ldexp(nearbyint(ldexp(fraction, bits)), exponent - bits);
}

static ls_tensor *run_bf16(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    ls_tensor *half = ls_cast(tape, in[0], LS_BF16);
    assert_int_equal(ls_tensor_dtype(half), LS_BF16);
    return ls_cast(tape, half, LS_F32);
}

static void round_bf16(double *y, const double *const *in, int use)
{
    (void)use;
    for (int i = 0; i < EW; i++)
        y[i] = round_to(in[0][i], 8);
}

static ls_tensor *run_f16(ls_tape *tape, ls_tensor *const *in, int use)
{
    (void)use;
    ls_tensor *half = ls_cast(tape, in[0], LS_F16);
    return ls_cast(tape, ls_cast(tape, half, LS_F16), LS_F32);
}

static void round_f16(double *y, const double *const *in, int use)
{
    (void)use;
    for (int i = 0; i < EW; i++)
        y[i] = round_to(in[0][i], 11);
}

/* ---- the cases ----------------------------------------------------------- */

#define ONE(fill_) .n_inputs = 1, .in = {{3, {2, 3, 5}, fill_}}
#define TWO(fill_)                                                             \
    .n_inputs = 2, .in = {{3, {2, 3, 5}, fill_}, {3, {2, 3, 5}, fill_}}
#define FUNCTIONS(name) .run = run_##name, .reference = ref_##name

const gradcheck_case gradcheck_elementwise[] = {
    {"add", "two", TWO(FILL_UNIFORM), FUNCTIONS(add), .terms = 1, .gain = 2},
    {"sub", "two", TWO(FILL_UNIFORM), FUNCTIONS(sub), .terms = 1, .gain = 2},
    {"mul", "two", TWO(FILL_UNIFORM), FUNCTIONS(mul), .terms = 1, .gain = 1},
    {"mul", "with itself", ONE(FILL_UNIFORM), FUNCTIONS(square), .terms = 1,
     .gain = 2},
    {"scale", "by -0.7", ONE(FILL_UNIFORM), FUNCTIONS(scale), .terms = 1,
     .gain = 1},
    {"relu", "one", ONE(FILL_DISTINCT), FUNCTIONS(relu), .terms = 1, .gain = 1},
    {"relu", "two readers", ONE(FILL_DISTINCT), FUNCTIONS(relu_read_twice),
     .terms = 2, .gain = 2},
    {"dropout", "p = 1/4", ONE(FILL_UNIFORM), FUNCTIONS(dropout), .terms = 1,
     .gain = 4.0 / 3.0},
    {"dropout", "p = 0", ONE(FILL_UNIFORM), .run = run_no_dropout,
     .reference = ref_identity, .terms = 1, .gain = 1},
    {"pow", "-1.25", ONE(FILL_UNIFORM), FUNCTIONS(pow), .terms = 3, .gain = 6},
    {"pow", "2", ONE(FILL_UNIFORM), .run = run_pow_square,
     .reference = ref_square, .terms = 1, .gain = 2},
    {"pow", "3", ONE(FILL_UNIFORM), FUNCTIONS(pow_cube), .terms = 2, .gain = 3},
    {"clamp", "both bounds", ONE(FILL_DISTINCT), FUNCTIONS(clamp), .terms = 1,
     .gain = 1},
    {"neg", "one", ONE(FILL_UNIFORM), FUNCTIONS(neg), .terms = 1, .gain = 1},
    {"abs", "one", ONE(FILL_DISTINCT), FUNCTIONS(abs), .terms = 1, .gain = 1},
    {"silu", "one", ONE(FILL_DISTINCT), FUNCTIONS(silu), .terms = 2, .gain = 1},
    {"gelu_erf", "one", ONE(FILL_DISTINCT), FUNCTIONS(gelu_erf), .terms = 2,
     .gain = 1},
    {"exp", "one", ONE(FILL_UNIFORM), FUNCTIONS(exp), .terms = 3, .gain = 13},
    {"log", "one", ONE(FILL_UNIFORM), FUNCTIONS(log), .terms = 3, .gain = 2},
    {"sqrt", "one", ONE(FILL_UNIFORM), FUNCTIONS(sqrt), .terms = 2, .gain = 2},
    {"tanh", "one", ONE(FILL_UNIFORM), FUNCTIONS(tanh), .terms = 2, .gain = 1},
    {"sigmoid", "one", ONE(FILL_UNIFORM), FUNCTIONS(sigmoid), .terms = 2,
     .gain = 1},
    {"sum", "one", ONE(FILL_UNIFORM), FUNCTIONS(sum), .terms = EW, .gain = 1},
    {"mean", "one", ONE(FILL_UNIFORM), FUNCTIONS(mean), .terms = EW,
     .gain = 1.0 / EW},
    {"mse_loss", "two", TWO(FILL_UNIFORM), FUNCTIONS(mse), .terms = EW,
     .gain = 4.0 / EW},
    {"bce_with_logits", "two", TWO(FILL_UNIFORM), FUNCTIONS(bce), .terms = EW,
     .gain = 2.0 / EW},
    /* Exponentials of at most 1, of which at most one is taken from 1. */
    {"cross_entropy", "7 classes", .n_inputs = 1,
     .in = {{2, {CE_ROWS, CE_CLASSES}, FILL_UNIFORM}}, FUNCTIONS(cross_entropy),
     .terms = CE_CLASSES + CE_ROWS, .gain = 0.5},
    {"reshape", "with -1", ONE(FILL_UNIFORM), .run = run_reshape,
     .reference = ref_identity, .terms = 1, .gain = 1},
    {"reshape", "flatten", ONE(FILL_UNIFORM), .run = run_flatten,
     .reference = ref_identity, .terms = 1, .gain = 1},
    {"narrow", "middle", ONE(FILL_UNIFORM), FUNCTIONS(narrow), .terms = 1,
     .gain = 1},
    {"narrow", "overlapping", ONE(FILL_UNIFORM), FUNCTIONS(narrow_twice),
     .terms = 2, .gain = 1},
    {"transpose", "0 and 2", ONE(FILL_UNIFORM), FUNCTIONS(transpose),
     .terms = 1, .gain = 1},
    {"cast", "through bf16", ONE(FILL_UNIFORM), .run = run_bf16,
     .reference = ref_identity, .forward = round_bf16, .terms = 1, .gain = 1},
    {"cast", "through f16", ONE(FILL_UNIFORM), .run = run_f16,
     .reference = ref_identity, .forward = round_f16, .terms = 1, .gain = 1},
};
const size_t gradcheck_elementwise_count = TEST_COUNT(gradcheck_elementwise);
