/*
 * Averages of weights against their formula in double, with a running bound on
 * what f32 may be off by.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "flat.h"
#include "lockstep/optim.h"
#include "optim_set.h"

static const double u = 0x1p-24;

typedef struct element {
    double average, err;
} element;

/* The weight is f32 already; 1 - d, the difference and the sum are rounded. */
static void advance(element *e, double weight, double decay, int t)
{
    const double early = (1.0 + t) / (10.0 + t);
    const double d = decay < early ? decay : early;
    const double difference = weight - e->average;
    e->average += (1 - d) * difference;
    e->err =
        e->err * d + 3 * u * (1 - d) * fabs(difference) + u * fabs(e->average);
}

static void check(int64_t n, double decay, bool momentum)
{
    enum { STEPS = 12 };
    size_t count;
    ls_optimizer *sgd = NULL;
    ls_params *params = make_set(&n, 1);
    const float *flat = flat_of(params, &count);
    element *expected = calloc((size_t)n, sizeof *expected);
    for (int64_t i = 0; i < n; i++)
        expected[i].average = flat[i];
    assert_ok(ls_optimizer_new(
        &sgd, params,
        &(ls_optimizer_spec){.sgd = &(ls_sgd_options){
                                 .lr = 0.25, .momentum = momentum ? 0.5 : 0}}));
    assert_ok(ls_ema_start(sgd, decay));
    assert_true(ls_ema_decay(sgd) == decay);
    for (int t = 1; t <= STEPS; t++) {
        set_gradients(params, (uint64_t)t);
        assert_ok(ls_optimizer_step(sgd, 1));
        for (int64_t i = 0; i < n; i++)
            advance(&expected[i], flat[i], decay, t);
        assert_ok(ls_ema_swap(sgd));
        for (int64_t i = 0; i < n; i++) {
            const double off = fabs(flat[i] - expected[i].average);
            if (!(off <= 1.01 * expected[i].err))
                fail_msg("step %d, element %lld of %lld: off by %g, bound %g",
                         t, (long long)i, (long long)n, off, expected[i].err);
        }
        assert_ok(ls_ema_swap(sgd));
    }
    free(expected);
    ls_optimizer_free(&sgd);
    ls_params_free(&params);
}

static void follows_its_formula(void **state)
{
    (void)state;
    static const int64_t lengths[] = {1, 2, 15, 17, 1000, 40001, 140007};
    for (size_t i = 0; i < TEST_COUNT(lengths); i++) {
        check(lengths[i], 0.999, true);
        check(lengths[i], 0.25, false);
    }
}

/* The weights of a run are the same bits whether they are averaged or not. */
static void weights_are_as_without(void **state)
{
    (void)state;
    const int64_t lengths[] = {33, 70001};
    float *kept = NULL;
    size_t count;
    for (int averages = 0; averages < 2; averages++) {
        ls_params *params = make_set(lengths, 2);
        ls_optimizer *adamw = NULL;
        assert_ok(ls_optimizer_new(&adamw, params, NULL));
        if (averages)
            assert_ok(ls_ema_start(adamw, 0.9));
        for (uint64_t step = 0; step < 5; step++) {
            set_gradients(params, step);
            assert_ok(ls_optimizer_step(adamw, 1));
            if (averages) {
                assert_ok(ls_ema_swap(adamw));
                assert_ok(ls_ema_swap(adamw));
            }
        }
        const float *flat = flat_of(params, &count);
        if (!averages)
            kept = memcpy(malloc(count * sizeof *kept), flat,
                          count * sizeof *kept);
        assert_memory_equal(flat, kept, count * sizeof *kept);
        ls_optimizer_free(&adamw);
        ls_params_free(&params);
    }
    free(kept);
}

/* A group that comes later begins to average when it comes. */
static void groups_and_buffers(void **state)
{
    (void)state;
    const int64_t two = 2;
    ls_params *params = NULL;
    ls_tensor *a, *b, *mean;
    ls_optimizer *sgd = NULL;
    const ls_sgd_options options = {.lr = 1};
    const ls_init eight = {LS_INIT_CONSTANT, 8, 0};
    assert_ok(ls_params_new(&params));
    assert_ok(ls_params_add(params, "a", 1, &two, eight, &a));
    assert_ok(ls_params_add(params, "b", 1, &two, eight, &b));
    assert_ok(ls_params_add_buffer(params, "mean", 1, &two, eight, &mean));
    assert_ok(ls_params_allocate(params, NULL, 1));
    assert_ok(ls_optimizer_new(
        &sgd, params,
        &(ls_optimizer_spec){.sgd = &options, .tensors = &a, .n = 1}));
    assert_ok(ls_ema_start(sgd, 0.125)); /* below 2 / 11 */
    assert_ok(ls_optimizer_add_group(
        sgd, &(ls_optimizer_spec){.sgd = &options, .tensors = &b, .n = 1}));
    for (int i = 0; i < 2; i++) {
        ((float *)tensor_data(ls_grad(a)))[i] = 8;
        ((float *)tensor_data(ls_grad(b)))[i] = 16;
        ((float *)tensor_data(mean))[i] = 0;
    }
    ls_params_finish_grad(params);
    for (int i = 0; i < 2; i++) {
        ((float *)tensor_data(ls_grad(a)))[i] = 8;
        ((float *)tensor_data(ls_grad(b)))[i] = 16;
    }
    assert_ok(ls_optimizer_step(sgd, 1));
    assert_ok(ls_ema_swap(sgd));
    for (int i = 0; i < 2; i++) { /* an eighth of 8, and 7 eighths of new */
        assert_true(((float *)tensor_data(a))[i] == 1);
        assert_true(((float *)tensor_data(b))[i] == -6);
        assert_true(((float *)tensor_data(mean))[i] == 1);
    }
    assert_error(ls_optimizer_step(sgd, 1), LS_ERR_STATE, "call ls_ema_swap");
    assert_ok(ls_ema_swap(sgd));
    assert_true(((float *)tensor_data(a))[0] == 0);
    assert_true(((float *)tensor_data(mean))[1] == 0);
    ls_optimizer_free(&sgd);
    ls_params_free(&params);
}

static void refusals(void **state)
{
    (void)state;
    const int64_t n = 3;
    ls_params *params = make_set(&n, 1);
    ls_optimizer *sgd = NULL;
    assert_ok(ls_optimizer_new(
        &sgd, params, &(ls_optimizer_spec){.sgd = &(ls_sgd_options){.lr = 1}}));
    assert_error(ls_ema_swap(sgd), LS_ERR_STATE, "call ls_ema_start first");
    static const double wrong[] = {0, 1, -0.5, 2, 0.99999999999, NAN};
    for (size_t i = 0; i < TEST_COUNT(wrong); i++)
        assert_error(ls_ema_start(sgd, wrong[i]), LS_ERR_ARGUMENT, "decay is");
    assert_true(ls_ema_decay(sgd) == 0);
    assert_ok(ls_ema_start(sgd, 0.5));
    assert_error(ls_ema_start(sgd, 0.5), LS_ERR_STATE,
                 "already has EMA weights");
    ls_optimizer_free(&sgd);
    ls_params_free(&params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_its_formula),
        cmocka_unit_test(weights_are_as_without),
        cmocka_unit_test(groups_and_buffers),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
