/*
 * Mixed precision, operation by operation: which types come out, products
 * against loops in double over rounded inputs, when parameters are rounded.
 */
#include <math.h>

#include "array/compute/threads.h"
#include "lockstep/attention.h"
#include "lockstep/optim.h"
#include "mixed.h"

enum { ROWS = 5, IN = 37, OUT = 11 };

static ls_tensor *watched(int64_t rows, int64_t cols, uint32_t seed)
{
    ls_tensor *t = random_tensor(2, (const int64_t[]){rows, cols}, seed);
    assert_ok(ls_tape_watch(tape, t));
    return t;
}

/* ---- products ------------------------------------------------------------ */

/* y = x w^T: what is multiplied is rounded, sums are f32, one rounding more. */
static void check_values(const ls_tensor *y, const ls_tensor *x,
                         const ls_tensor *w, const float *bias, ls_dtype dtype)
{
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t o = 0; o < OUT; o++) {
            double sum = bias != NULL ? (double)bias[o] : 0.0, size = 1.0;
            for (int64_t i = 0; i < IN; i++) {
                const double term = rounded(x, r * IN + i, dtype) *
                                    rounded(w, o * IN + i, dtype);
                sum += term;
                size += fabs(term);
            }
            assert_true(fabs(widened(y, r * OUT + o) - sum) <=
                        unit_of(dtype) * fabs(sum) + (IN + 2) * 0x1p-23 * size);
        }
}

/* The loss is the sum of y: gradients are sums of the rounded operands. */
static void check_gradients(const ls_tensor *x, const ls_tensor *w,
                            ls_dtype dtype)
{
    const ls_tensor *dx = ls_tape_grad(tape, x), *dw = ls_tape_grad(tape, w);
    assert_type(dx, LS_F32);
    assert_type(dw, LS_F32);
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t i = 0; i < IN; i++) {
            double sum = 0;
            for (int64_t o = 0; o < OUT; o++)
                sum += rounded(w, o * IN + i, dtype);
            assert_true(fabs(widened(dx, r * IN + i) - sum) <=
                        OUT * OUT * 0x1p-23);
        }
    for (int64_t o = 0; o < OUT; o++)
        for (int64_t i = 0; i < IN; i++) {
            double sum = 0;
            for (int64_t r = 0; r < ROWS; r++)
                sum += rounded(x, r * IN + i, dtype);
            assert_true(fabs(widened(dw, o * IN + i) - sum) <=
                        ROWS * ROWS * 0x1p-23);
        }
}

static void linear_rounds_what_it_multiplies(void **state)
{
    (void)state;
    for (size_t h = 0; h < TEST_COUNT(halves); h++) {
        assert_ok(ls_tape_set_autocast(tape, halves[h]));
        ls_tensor *x = watched(ROWS, IN, 1), *w = watched(OUT, IN, 2);
        ls_tensor *bias = random_tensor(1, (const int64_t[]){OUT}, 3);
        assert_ok(ls_tape_watch(tape, bias));
        ls_tensor *y = ls_linear(tape, x, w, bias);
        assert_type(y, halves[h]);
        check_values(y, x, w, tensor_data(bias), halves[h]);
        assert_ok(ls_backward(tape, ls_sum(tape, y), 1.0));
        check_gradients(x, w, halves[h]);
        for (int64_t o = 0; o < OUT; o++)
            assert_true(widened(ls_tape_grad(tape, bias), o) == ROWS);
        ls_tape_reset(tape);
    }
}

/* The operands are views, as they are stored and transposed. */
static void matmul_rounds_what_it_multiplies(void **state)
{
    (void)state;
    for (size_t h = 0; h < TEST_COUNT(halves); h++) {
        assert_ok(ls_tape_set_autocast(tape, halves[h]));
        ls_tensor *x = watched(ROWS, IN, 1), *w = watched(OUT, IN, 2);
        ls_tensor *y = ls_matmul(tape, x, ls_transpose(tape, w, 0, 1));
        assert_type(y, halves[h]);
        check_values(y, x, w, NULL, halves[h]);
        assert_ok(ls_backward(tape, ls_sum(tape, y), 1.0));
        check_gradients(x, w, halves[h]);
        ls_tape_reset(tape);
    }
}

/* Twice the same input and weight: every gradient is added to. */
static void gradients_of_several_uses_add_up(void **state)
{
    (void)state;
    for (size_t h = 0; h < TEST_COUNT(halves); h++) {
        assert_ok(ls_tape_set_autocast(tape, halves[h]));
        ls_tensor *x = watched(ROWS, IN, 1), *w = watched(IN, IN, 2);
        ls_tensor *y = ls_linear(tape, x, w, NULL);
        ls_tensor *z = ls_linear(tape, x, w, NULL);
        ls_tensor *loss = ls_sum(tape, ls_add(tape, y, z));
        assert_ok(ls_backward(tape, loss, 0.5));
        for (int64_t i = 0; i < IN; i++) {
            double sum = 0;
            for (int64_t r = 0; r < ROWS; r++)
                sum += rounded(x, r * IN + i, halves[h]);
            assert_true(fabs(widened(ls_tape_grad(tape, w), i) - sum) <=
                        4 * ROWS * ROWS * 0x1p-23);
        }
        ls_tape_reset(tape);
    }
}

/* Against the same attention of rounded inputs in f32. */
static void attention_rounds_what_it_multiplies(void **state)
{
    (void)state;
    const int64_t shape[] = {2, 3, 9, 8};
    const ls_attention_options options = {.causal = true};
    for (size_t h = 0; h < TEST_COUNT(halves); h++) {
        assert_ok(ls_tape_set_autocast(tape, LS_F32));
        ls_tensor *in[3], *wide[3];
        for (uint32_t i = 0; i < 3; i++) {
            in[i] = random_tensor(4, shape, i + 1);
            assert_ok(ls_tape_watch(tape, in[i]));
            wide[i] = ls_cast(tape, ls_cast(tape, in[i], halves[h]), LS_F32);
        }
        ls_tensor *expected =
            ls_attention(tape, wide[0], wide[1], wide[2], &options);
        assert_ok(ls_tape_set_autocast(tape, halves[h]));
        ls_tensor *o = ls_attention(tape, in[0], in[1], in[2], &options);
        assert_type(o, halves[h]);
        /* Values are below 1; P is rounded to bf16, the result to either. */
        for (int64_t i = 0; i < ls_tensor_count(o); i++)
            assert_true(fabs(widened(o, i) - widened(expected, i)) <=
                        3 * unit_of(halves[h]));
        assert_ok(ls_backward(tape, ls_sum(tape, o), 1.0));
        assert_type(ls_tape_grad(tape, in[0]), LS_F32);
        ls_tape_reset(tape);
    }
}

/* ---- types --------------------------------------------------------------- */

static void types_that_come_out(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(halves); i++) {
        const ls_dtype half = halves[i];
        assert_ok(ls_tape_set_autocast(tape, half));
        ls_tensor *x = watched(4, 6, 1), *w = watched(6, 6, 2);
        ls_tensor *g = vector(6);
        ls_tensor *y = ls_linear(tape, x, w, NULL);
        assert_type(ls_relu(tape, y), half);
        assert_type(ls_gelu(tape, y), half);
        assert_type(ls_swiglu(tape, y, y), half);
        assert_type(ls_relu(tape, x), LS_F32);
        assert_type(ls_add(tape, x, y), LS_F32);
        assert_type(ls_add(tape, y, x), LS_F32);
        assert_type(ls_add(tape, y, y), LS_F32);
        assert_type(ls_mul(tape, y, x), LS_F32);
        assert_type(ls_scale(tape, y, 2.0), LS_F32);
        assert_type(ls_silu(tape, y), LS_F32);
        assert_type(ls_gelu_erf(tape, y), LS_F32);
        assert_type(ls_rms_norm(tape, y, g, 1e-5), LS_F32);
        assert_type(ls_layer_norm(tape, y, g, g, 1e-5), LS_F32);
        assert_type(ls_softmax(tape, y, 0), LS_F32);
        assert_type(ls_dropout(tape, y, 0.5), LS_F32);
        assert_type(ls_mse_loss(tape, y, x), LS_F32);
        assert_type(ls_cross_entropy(
                        tape, y, labels_of((int64_t[]){0, 1, 2, 3}, 4), NULL),
                    LS_F32);
        assert_type(batch_norm(y, new_statistics(6)), LS_F32);
        assert_type(ls_mean(tape, y), LS_F32);
        assert_ok(ls_tape_status(tape));
        ls_tape_reset(tape);
        assert_int_equal(ls_tape_autocast(tape), half);
    }
}

/* Half activations: values and gradients of those of the same numbers in f32,
 * rounded once. */
static void activations_round_once(void **state)
{
    (void)state;
    const int64_t n = 1037;
    for (size_t h = 0; h < TEST_COUNT(halves); h++) {
        assert_ok(ls_tape_set_autocast(tape, halves[h]));
        ls_tensor *a = vector(n);
        assert_ok(ls_tape_watch(tape, a));
        ls_tensor *half = ls_cast(tape, a, halves[h]);
        ls_tensor *wide = ls_cast(tape, half, LS_F32);
        ls_tensor *const pairs[][2] = {
            {ls_relu(tape, half), ls_relu(tape, wide)},
            {ls_gelu(tape, half), ls_gelu(tape, wide)},
            {ls_swiglu(tape, half, half), ls_swiglu(tape, wide, wide)}};
        for (size_t p = 0; p < TEST_COUNT(pairs); p++) {
            assert_type(pairs[p][0], halves[h]);
            assert_type(pairs[p][1], LS_F32);
            for (int64_t i = 0; i < n; i++)
                assert_true(widened(pairs[p][0], i) ==
                            rounded(pairs[p][1], i, halves[h]));
        }
        ls_tape_reset(tape);
    }
}

static void gradients_through_half_activations(void **state)
{
    (void)state;
    typedef ls_tensor *unary(ls_tape *, ls_tensor *);
    unary *const ops[] = {ls_relu, ls_gelu};
    const int64_t n = 700;
    for (size_t k = 0; k < TEST_COUNT(ops); k++) {
        double gradients[2][700];
        for (int mixed = 0; mixed < 2; mixed++) {
            assert_ok(ls_tape_set_autocast(tape, mixed ? LS_BF16 : LS_F32));
            ls_tensor *a = vector(n);
            assert_ok(ls_tape_watch(tape, a));
            ls_tensor *x = mixed ? ls_cast(tape, a, LS_BF16) : a;
            ls_tensor *y = ops[k](tape, x), *z = ops[k](tape, x);
            assert_ok(ls_backward(tape, ls_sum(tape, ls_add(tape, y, z)), 1.0));
            for (int64_t i = 0; i < n; i++)
                gradients[mixed][i] = widened(ls_tape_grad(tape, a), i);
            ls_tape_reset(tape);
        }
        /* Input, both gradients and their sum are rounded; |f''| < 1. */
        for (int64_t i = 0; i < n; i++)
            assert_true(fabs(gradients[0][i] - gradients[1][i]) <= 8 * 0x1p-9);
    }
}

static void residual_streams_stay_f32(void **state)
{
    (void)state;
    assert_ok(ls_tape_set_autocast(tape, LS_BF16));
    for (int swapped = 0; swapped < 2; swapped++) {
        ls_tensor *x = watched(3, 7, 1), *b = watched(3, 7, 2);
        ls_tensor *half = ls_cast(tape, b, LS_BF16);
        ls_tensor *y = swapped ? ls_add(tape, half, x) : ls_add(tape, x, half);
        for (int64_t i = 0; i < 21; i++) {
            const float sum = (float)(widened(x, i) + widened(half, i));
            assert_true(widened(y, i) == sum);
        }
        ls_tensor *third = ls_scale(tape, ls_sum(tape, y), 1.0 / 3.0);
        assert_ok(ls_backward(tape, third, 1.0));
        const float exact = (float)(1.0 / 3.0);
        assert_true(widened(ls_tape_grad(tape, x), 4) == exact);
        assert_true(widened(ls_tape_grad(tape, b), 4) ==
                    lsi_bf16_to_f32(lsi_bf16_from_f32(exact)));
        ls_tape_reset(tape);
    }
}

/* ---- parameters ---------------------------------------------------------- */

static float first_output(ls_tensor *x, ls_tensor *weight)
{
    ls_tensor *y = ls_linear(tape, x, weight, NULL);
    assert_type(y, LS_BF16);
    return (float)widened(y, 0);
}

static void parameters_are_rounded_once_a_change(void **state)
{
    (void)state;
    ls_params *params = NULL;
    ls_tensor *weight = NULL;
    ls_optimizer *sgd = NULL;
    const int64_t shape[] = {1, 1};
    assert_ok(ls_params_new(&params));
    assert_ok(ls_params_add(params, "w", 2, shape,
                            (ls_init){LS_INIT_CONSTANT, 3, 0}, &weight));
    assert_ok(ls_params_allocate(params, NULL, 0));
    assert_ok(ls_tape_set_autocast(tape, LS_BF16));
    ls_tensor *x = watched(1, 1, 1);
    *(float *)tensor_data(x) = 1.0F;
    float *value = tensor_data(weight);

    assert_true(first_output(x, weight) == 3.0F);
    *value = 5.0F;
    assert_true(first_output(x, weight) == 3.0F);
    ls_params_changed(params);
    assert_true(first_output(x, weight) == 5.0F);

    assert_ok(ls_optimizer_new(
        &sgd, params, &(ls_optimizer_spec){.sgd = &(ls_sgd_options){.lr = 2}}));
    ls_tensor *y = ls_linear(tape, x, weight, NULL);
    assert_ok(ls_backward(tape, ls_sum(tape, y), 1.0));
    assert_ok(ls_optimizer_step(sgd, 1.0));
    ls_tape_reset(tape);
    value = tensor_data(weight);
    assert_true(*value == 3.0F);
    x = watched(1, 1, 1);
    *(float *)tensor_data(x) = 1.0F;
    assert_true(first_output(x, weight) == 3.0F);
    ls_optimizer_free(&sgd);
    ls_tape_reset(tape);
    ls_params_free(&params);
}

static void other_types_are_refused(void **state)
{
    (void)state;
    assert_error(ls_tape_set_autocast(tape, LS_I32), LS_ERR_DTYPE,
                 "must be bf16 or f16, or f32");
    assert_int_equal(ls_tape_autocast(tape), LS_F32);
    ls_tensor *x = ls_cast(tape, matrix(2, 3), LS_BF16);
    assert_null(ls_relu(tape, x));
    assert_error(ls_tape_status(tape), LS_ERR_DTYPE, "bf16; it must be f32");
}

/* Same bits on one thread and on three, and again. */
static void threads_change_nothing(void **state)
{
    (void)state;
    double first[2000];
    for (int run = 0; run < 3; run++) {
        lsi_threads_set(run == 1 ? 3 : 1);
        assert_ok(ls_tape_set_autocast(tape, LS_BF16));
        ls_tensor *x = watched(40, 50, 1);
        ls_tensor *y = ls_gelu(tape, ls_cast(tape, x, LS_BF16));
        y = ls_add(tape, x, ls_swiglu(tape, y, y));
        assert_ok(ls_backward(tape, ls_mean(tape, ls_mul(tape, y, y)), 1.0));
        for (int64_t i = 0; i < 2000; i++) {
            const double g = widened(ls_tape_grad(tape, x), i);
            assert_true(run == 0 || g == first[i]);
            first[i] = g;
        }
        ls_tape_reset(tape);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(linear_rounds_what_it_multiplies),
        CASE(matmul_rounds_what_it_multiplies),
        CASE(gradients_of_several_uses_add_up),
        CASE(attention_rounds_what_it_multiplies),
        CASE(types_that_come_out),
        CASE(activations_round_once),
        CASE(gradients_through_half_activations),
        CASE(residual_streams_stay_f32),
        CASE(parameters_are_rounded_once_a_change),
        CASE(other_types_are_refused),
        CASE(threads_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
