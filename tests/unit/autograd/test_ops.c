/*
 * Operations apart from values and gradients: modes, running
 * statistics, layouts, halves, empty batches, any number of threads.
 */
#include <math.h>

#include "array/compute/threads.h"
#include "base/half.h"
#include "model/autograd/ops/ops.h"
#include "ops_fixture.h"
#include "testing.h"

/* A copy of a tensor's bytes that outlives the tape's reset. */
static ls_tensor *keep(const ls_tensor *tensor)
{
    ls_tensor *copy = NULL;
    assert_non_null(tensor);
    assert_ok(ls_tensor_new(&copy, tensor->dtype, tensor->ndim, tensor->shape));
    assert_ok(ls_tensor_copy(copy, tensor));
    return copy;
}

static void assert_same_bits(const ls_tensor *a, const ls_tensor *b)
{
    assert_true(lsi_shape_equal(a, b));
    assert_memory_equal(tensor_data(a), tensor_data(b),
                        (size_t)a->count * ls_dtype_size(a->dtype));
}

static double item(const ls_tensor *tensor)
{
    double value = NAN;
    assert_non_null(tensor);
    assert_ok(ls_tensor_item(tensor, &value));
    return value;
}

/* Fails for NaN, which cmocka's own comparison lets pass. */
static void assert_near(double got, double want, double bound)
{
    if (!(fabs(got - want) <= bound))
        fail_msg("%.9g should be %.9g, bound %.3g", got, want, bound);
}

/* ---- dropout ------------------------------------------------------------- */

enum { MANY = 100000 };

static int kept(const ls_tensor *y)
{
    int n = 0;
    const float *data = tensor_data(y);
    for (int64_t i = 0; i < y->count; i++) {
        assert_true(data[i] == 0.0F || data[i] == 1.0F / 0.75F);
        n += data[i] != 0.0F;
    }
    return n;
}

static void dropout_keeps_its_share(void **state)
{
    (void)state;
    const int64_t n = MANY;
    ls_tensor *ones = random_tensor(1, &n, 1);
    assert_ok(ls_tensor_fill(ones, 1.0));
    ls_tape_set_random(tape, 5, 0, 0);
    const ls_tensor *a = ls_dropout(tape, ones, 0.25);
    const ls_tensor *b = ls_dropout(tape, ones, 0.25); /* another mask */
    /* Binomial: 75000 with deviation 137. */
    assert_in_range(kept(a), 75000 - 700, 75000 + 700);
    assert_memory_not_equal(tensor_data(a), tensor_data(b), 4 * MANY);
}

static void dropout_is_a_function_of_its_counters(void **state)
{
    (void)state;
    static const uint64_t settings[][3] = {
        {1, 2, 3}, {1, 2, 4}, {1, 3, 3}, {2, 2, 3}, {1, 2, 3}};
    const int64_t n = 1000;
    ls_tensor *y[5];
    for (int i = 0; i < 5; i++) {
        ls_tape_reset(tape);
        ls_tape_set_random(tape, settings[i][0], settings[i][1],
                           settings[i][2]);
        lsi_threads_set(i == 4 ? 3 : 1);
        y[i] = keep(ls_dropout(tape, random_tensor(1, &n, 1), 0.5));
    }
    assert_same_bits(y[0], y[4]);
    for (int i = 1; i < 4; i++)
        assert_memory_not_equal(tensor_data(y[0]), tensor_data(y[i]), 4 * 1000);
    for (int i = 0; i < 5; i++)
        ls_tensor_free(&y[i]);
}

/* The elements dropped in a step, of 1000. */
static ls_tensor *mask(void)
{
    const int64_t n = 1000;
    return keep(ls_dropout(tape, random_tensor(1, &n, 1), 0.5));
}

/* A tape counts its steps: a reset goes on, but not from a step that was set.
 */
static void dropout_counts_steps(void **state)
{
    (void)state;
    ls_tensor *y[6];
    for (int step = 0; step < 3; step++) {
        y[step] = mask();
        ls_tape_reset(tape);
    }
    ls_tape_reset(tape); /* nothing was dropped: still step 3 */
    y[3] = mask();
    ls_tape_set_random(tape, 0, 0, 2);
    ls_tape_reset(tape); /* the step that was set is to come */
    y[4] = mask();
    ls_tape_reset(tape);
    y[5] = mask();
    assert_same_bits(y[2], y[4]);
    assert_same_bits(y[3], y[5]);
    for (int a = 0; a < 4; a++)
        for (int b = 0; b < a; b++)
            assert_memory_not_equal(tensor_data(y[a]), tensor_data(y[b]),
                                    4 * 1000);
    for (int i = 0; i < 6; i++)
        ls_tensor_free(&y[i]);
}

static void dropout_rests_in_evaluation(void **state)
{
    (void)state;
    const int64_t n = 100;
    ls_tensor *x = random_tensor(1, &n, 1);
    ls_tape_set_training(tape, false);
    assert_same_bits(ls_dropout(tape, x, 0.9), x);
}

/* ---- batch normalisation ------------------------------------------------- */

static void assert_filled(const ls_tensor *tensor, double want)
{
    const float *data = tensor_data(tensor);
    for (int64_t i = 0; i < tensor->count; i++)
        assert_near((double)data[i], want, 1e-6);
}

/* Rows 1, 2, 3, 4, 5: mean 3, unbiased variance 2.5. */
static ls_tensor *rows_1_to_5(void)
{
    ls_tensor *x = ls_tape_output(tape, LS_F32, 2, (const int64_t[]){5, 2});
    for (int i = 0; i < 10; i++)
        ((float *)tensor_data(x))[i] = (float)(1 + i / 2);
    return x;
}

static void running_statistics(void **state)
{
    (void)state;
    const statistics s = new_statistics(2);
    assert_non_null(batch_norm(rows_1_to_5(), s));
    assert_filled(s.mean, 0.75 * 2.0 + 0.25 * 3.0);
    assert_filled(s.var, 0.75 * 3.0 + 0.25 * 2.5);
}

static void evaluation_uses_running_statistics(void **state)
{
    (void)state;
    const statistics s = new_statistics(2);
    ls_tape_set_training(tape, false);
    const ls_tensor *y = batch_norm(rows_1_to_5(), s);
    for (int i = 0; i < 10; i++)
        assert_near((double)((const float *)tensor_data(y))[i],
                    (1.0 + i / 2 - 2.0) / sqrt(3.0 + 1e-5), 1e-6);
    assert_filled(s.mean, 2.0);
    assert_filled(s.var, 3.0);
}

/* One row says nothing about the variance, no row about anything. */
static void few_rows(void **state)
{
    (void)state;
    const statistics s = new_statistics(3);
    ls_tensor *none = random_tensor(2, (const int64_t[]){0, 3}, 1);
    assert_int_equal(ls_tensor_count(batch_norm(none, s)), 0);
    assert_filled(s.mean, 2.0);
    ls_tensor *one = random_tensor(2, (const int64_t[]){1, 3}, 1);
    assert_ok(ls_tensor_fill(one, 6.0));
    assert_filled(batch_norm(one, s), 0.0);
    assert_filled(s.mean, 0.75 * 2.0 + 0.25 * 6.0);
    assert_filled(s.var, 3.0);
}

/* ---- empty batches ------------------------------------------------------- */

/* Gradients of weights are zeros, not what was there before. */
static void no_samples_at_all(void **state)
{
    (void)state;
    const ls_init one = {LS_INIT_CONSTANT, 1.0, 0.0};
    ls_params *params = NULL;
    ls_tensor *p[6];
    const int64_t shapes[6][4] = {{16, 3, 3, 3}, {16}, {5, 64}, {5}, {5}, {5}};
    const int ndims[6] = {4, 1, 2, 1, 1, 1};
    const char *const names[6] = {"cw", "cb", "w", "b", "bw", "bb"};
    assert_ok(ls_params_new(&params));
    for (int i = 0; i < 6; i++)
        assert_ok(
            ls_params_add(params, names[i], ndims[i], shapes[i], one, &p[i]));
    assert_ok(ls_params_allocate(params, NULL, 0));
    for (int i = 0; i < 6; i++)
        assert_ok(ls_tensor_fill(ls_grad(p[i]), 7.0)); /* from another step */
    const statistics s = new_statistics(5);
    const ls_batch_norm_args bn = {.weight = p[4],
                                   .bias = p[5],
                                   .running_mean = s.mean,
                                   .running_var = s.var,
                                   .eps = 1e-5,
                                   .momentum = 0.1};
    ls_tensor *x = image(0, 3, 6, 6);
    assert_ok(ls_tape_watch(tape, x));
    ls_tensor *h =
        ls_conv2d(tape, x, p[0], p[1], &(ls_conv2d_options){.relu = true});
    h = ls_dropout(tape, ls_relu(tape, ls_max_pool2d(tape, h, 2, NULL)), 0.5);
    h = ls_linear(tape, ls_flatten(tape, h), p[2], p[3]);
    h = ls_add(tape, ls_batch_norm(tape, h, &bn), h);
    ls_tensor *loss =
        ls_cross_entropy(tape, h, labels_of(&(int64_t){0}, 0), NULL);
    assert_true(item(loss) == 0.0);
    assert_true(item(ls_mse_loss(tape, h, h)) == 0.0);
    assert_true(item(ls_mean(tape, h)) == 0.0);
    assert_ok(ls_backward(tape, loss, 1.0));
    assert_int_equal(ls_tensor_count(ls_tape_grad(tape, x)), 0);
    for (int i = 0; i < 6; i++)
        assert_filled(ls_grad(p[i]), 0.0);
    ls_tape_reset(tape);
    ls_params_free(&params);
}

/* ---- convolutions: layouts and gradients that start apart ---------------- */

static void conv_results_turn_plain_when_looked_at(void **state)
{
    (void)state;
    const ls_conv2d_options options = {.padding = 1};
    ls_tensor *w = image(16, 16, 3, 3);
    ls_tensor *h = ls_conv2d(tape, image(2, 16, 8, 8), w, NULL, &options);
    const bool blocked = lsi_tensor_layout(h) != LSI_LAYOUT_PLAIN;
    ls_tensor *r = ls_relu(tape, h);
    assert_int_equal(lsi_tensor_layout(r), lsi_tensor_layout(h));
    const ls_tensor *from_blocked = ls_conv2d(tape, r, w, NULL, &options);
    ls_tensor *first = keep(from_blocked);
    assert_non_null(tensor_data(r));
    assert_int_equal(lsi_tensor_layout(r), LSI_LAYOUT_PLAIN);
    const ls_tensor *from_plain = ls_conv2d(tape, r, w, NULL, &options);
    assert_same_bits(first, from_plain);
    assert_true(blocked || lsi_tensor_layout(h) == LSI_LAYOUT_PLAIN);
    ls_tensor_free(&first);
}

/* Looking at activations between forward and backward changes nothing. */
static void looking_does_not_disturb(void **state)
{
    (void)state;
    ls_tensor *grads[2];
    for (int look = 0; look < 2; look++) {
        ls_tape_reset(tape);
        ls_tensor *x = image(2, 16, 8, 8), *w = image(16, 16, 3, 3);
        assert_ok(ls_tape_watch(tape, x));
        ls_tensor *h =
            ls_conv2d(tape, x, w, NULL, &(ls_conv2d_options){.relu = true});
        ls_tensor *y = ls_relu(tape, ls_conv2d(tape, h, w, NULL, NULL));
        ls_tensor *loss = ls_sum(tape, ls_max_pool2d(tape, y, 2, NULL));
        if (look) {
            assert_non_null(tensor_data(h));
            assert_non_null(tensor_data(y));
        }
        assert_ok(ls_backward(tape, loss, 1.0));
        grads[look] = keep(ls_tape_grad(tape, x));
    }
    assert_same_bits(grads[0], grads[1]);
    ls_tensor_free(&grads[0]);
    ls_tensor_free(&grads[1]);
}

/* The bias has a gradient already, the weight has none; and vice versa. */
static void conv_gradients_that_start_apart(void **state)
{
    (void)state;
    const int64_t shapes[2][4] = {{4, 3, 3, 3}, {4}};
    for (int early = 0; early < 2; early++) {
        ls_tensor *p[2] = {random_tensor(4, shapes[0], 1),
                           random_tensor(1, shapes[1], 2)};
        assert_ok(ls_tape_watch(tape, p[0]));
        assert_ok(ls_tape_watch(tape, p[1]));
        ls_tensor *y = ls_conv2d(tape, image(2, 3, 5, 5), p[0], p[1], NULL);
        /* Recorded later, hence walked earlier: d early = 1 */
        ls_tensor *loss = ls_add(tape, ls_sum(tape, y), ls_sum(tape, p[early]));
        assert_ok(ls_backward(tape, loss, 1.0));
        const float *db = tensor_data(ls_tape_grad(tape, p[1]));
        for (int o = 0; o < 4; o++) /* 2 x 3 x 3 pixels */
            assert_true(db[o] == 18.0F + (float)early);
        ls_tensor *dw = keep(ls_tape_grad(tape, p[0]));
        ls_tape_reset(tape);
        if (early == 0) { /* without the early gradient it is 1 less */
            ls_tensor *w = random_tensor(4, shapes[0], 1);
            assert_ok(ls_tape_watch(tape, w));
            loss =
                ls_sum(tape, ls_conv2d(tape, image(2, 3, 5, 5), w, NULL, NULL));
            assert_ok(ls_backward(tape, loss, 1.0));
            const float *alone = tensor_data(ls_tape_grad(tape, w));
            for (int i = 0; i < 108; i++)
                assert_near((double)((const float *)tensor_data(dw))[i],
                            (double)alone[i] + 1.0, 1e-5);
            ls_tape_reset(tape);
        }
        ls_tensor_free(&dw);
    }
}

/* The relu inside a convolution masks a copy of a gradient that is watched. */
static void conv_with_a_watched_result(void **state)
{
    (void)state;
    ls_tensor *x = image(1, 3, 5, 5), *w = image(4, 3, 3, 3);
    assert_ok(ls_tape_watch(tape, x));
    ls_tensor *y =
        ls_conv2d(tape, x, w, NULL, &(ls_conv2d_options){.relu = true});
    assert_ok(ls_tape_watch(tape, y));
    assert_ok(ls_backward(tape, ls_sum(tape, y), 3.0));
    assert_filled(ls_tape_grad(tape, y), 3.0);
    int clipped = 0;
    for (int64_t i = 0; i < ls_tensor_count(y); i++)
        clipped += ((const float *)tensor_data(y))[i] == 0.0F;
    assert_in_range(clipped, 1, 35);
}

/* A weight or a bias that is not trained. */
static void conv_with_half_of_it_frozen(void **state)
{
    (void)state;
    for (int trained = 0; trained < 2; trained++) {
        ls_tensor *p[2] = {image(4, 3, 3, 3), vector(4)};
        assert_ok(ls_tape_watch(tape, p[trained]));
        ls_tensor *y = ls_conv2d(tape, image(2, 3, 5, 5), p[0], p[1], NULL);
        assert_ok(ls_backward(tape, ls_sum(tape, y), 1.0));
        assert_non_null(ls_tape_grad(tape, p[trained]));
        assert_null(ls_tape_grad(tape, p[1 - trained]));
        ls_tape_reset(tape);
    }
}

/* ---- halves -------------------------------------------------------------- */

/* Products of bf16 values are exact in f32, so only sums and the result round:
 * (K + 1) 2^-24 of sum |a b| and 2^-9 of the result. */
static void assert_near_product(const ls_tensor *y, const float *want,
                                double terms)
{
    const uint16_t *got = tensor_data(y);
    for (int64_t i = 0; i < y->count; i++) {
        const double value = (double)lsi_bf16_to_f32(got[i]);
        assert_true(fabs(value - (double)want[i]) <=
                    fabs((double)want[i]) * 0x1p-8 + terms * terms * 0x1p-24);
    }
}

static void products_of_bf16(void **state)
{
    (void)state;
    ls_tensor *a = matrix(5, 16), *b = matrix(16, 7), *w = matrix(7, 16);
    ls_tensor *bias = vector(7);
    assert_ok(ls_tape_watch(tape, a));
    assert_ok(ls_tape_watch(tape, bias));
    ls_tensor *ha = ls_cast(tape, a, LS_BF16), *hb = ls_cast(tape, b, LS_BF16);
    ls_tensor *hw = ls_cast(tape, w, LS_BF16);
    /* The reference computes with the rounded values in f32. */
    ls_tensor *ra = ls_cast(tape, ha, LS_F32), *rb = ls_cast(tape, hb, LS_F32);
    ls_tensor *rw = ls_cast(tape, hw, LS_F32);
    const ls_tensor *product = ls_matmul(tape, ha, hb);
    ls_tensor *y = ls_linear(tape, ha, hw, bias);
    assert_int_equal(ls_tape_status(tape), LS_OK);
    assert_int_equal(ls_tensor_dtype(product), LS_BF16);
    assert_int_equal(ls_tensor_dtype(y), LS_BF16);
    assert_near_product(product, tensor_data(ls_matmul(tape, ra, rb)), 16);
    assert_near_product(y, tensor_data(ls_linear(tape, ra, rw, bias)), 17);
    ls_tensor *loss = ls_sum(tape, ls_cast(tape, y, LS_F32));
    assert_ok(ls_backward(tape, loss, 1.0));
    assert_filled(ls_tape_grad(tape, bias), 5.0);
    const float *da = tensor_data(ls_tape_grad(tape, a));
    const float *weights = tensor_data(rw);
    for (int i = 0; i < 5 * 16; i++) { /* da = sum of w over outputs */
        double want = 0.0;
        for (int o = 0; o < 7; o++)
            want += (double)weights[o * 16 + i % 16];
        assert_true(fabs((double)da[i] - want) <=
                    fabs(want) * 0x1p-8 + 49 * 0x1p-24);
    }
}

/* ---- threads ------------------------------------------------------------- */

static ls_tensor *large_step(int threads)
{
    lsi_threads_set(threads);
    ls_tape_reset(tape);
    ls_tape_set_random(tape, 1, 1, 1);
    ls_tensor *x = matrix(301, 403), *y = matrix(301, 403);
    assert_ok(ls_tape_watch(tape, x));
    ls_tensor *h = ls_mul(tape, ls_relu(tape, x), ls_sub(tape, x, y));
    h = ls_dropout(tape, ls_add(tape, h, ls_scale(tape, y, 0.3)), 0.2);
    ls_tensor *loss = ls_add(tape, ls_mse_loss(tape, h, y), ls_mean(tape, h));
    int64_t labels[301];
    for (int i = 0; i < 301; i++)
        labels[i] = i;
    ls_tensor *ce = ls_cross_entropy(tape, h, labels_of(labels, 301), NULL);
    assert_ok(ls_backward(tape, ls_add(tape, loss, ce), 1.0));
    return keep(ls_tape_grad(tape, x));
}

static void threads_do_not_change_a_bit(void **state)
{
    (void)state;
    ls_tensor *one = large_step(1);
    for (int threads = 2; threads <= 5; threads++) {
        ls_tensor *more = large_step(threads);
        assert_same_bits(one, more);
        ls_tensor_free(&more);
    }
    ls_tensor_free(&one);
}

/* 2^24 ones and then some: f32 alone could not count them. */
static void long_sums_are_taken_in_double(void **state)
{
    (void)state;
    const int64_t n = (1 << 24) + 3;
    ls_tensor *x = ls_tape_output(tape, LS_F32, 1, &n);
    assert_ok(ls_tensor_fill(x, 1.0));
    ((float *)tensor_data(x))[0] = 2.0F;
    assert_true(item(ls_sum(tape, x)) == (double)(n + 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(dropout_keeps_its_share),
        CASE(dropout_is_a_function_of_its_counters),
        CASE(dropout_counts_steps),
        CASE(dropout_rests_in_evaluation),
        CASE(running_statistics),
        CASE(evaluation_uses_running_statistics),
        CASE(few_rows),
        CASE(no_samples_at_all),
        CASE(conv_results_turn_plain_when_looked_at),
        CASE(looking_does_not_disturb),
        CASE(conv_gradients_that_start_apart),
        CASE(conv_with_a_watched_result),
        CASE(conv_with_half_of_it_frozen),
        CASE(products_of_bf16),
        CASE(threads_do_not_change_a_bit),
        CASE(long_sums_are_taken_in_double),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
