/*
 * Optimizers compared with float64 by running error bounds, and properties of
 * every row of optimizers.h. The result does not depend on threads or on
 * how the range is cut.
 */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array/compute/threads.h"
#include "base/rng.h"
#include "flat.h"
#include "lockstep/profile.h"
#include "model/autograd/params.h"
#include "model/optim/optimizer.h"
#include "testing.h"

static const lsi_rng_key key = {11, 22};

/* A set of two parameters, `n` and 7 elements. */
static ls_params *make_params(int64_t n)
{
    ls_params *params = NULL;
    ls_tensor *a, *b;
    const int64_t seven = 7;
    const ls_init init = {LS_INIT_NORMAL, 0, 1};
    assert_int_equal(ls_params_new(&params), LS_OK);
    assert_int_equal(ls_params_add(params, "a", 1, &n, init, &a), LS_OK);
    assert_int_equal(ls_params_add(params, "b", 1, &seven, init, &b), LS_OK);
    assert_int_equal(ls_params_allocate(params, NULL, 1), LS_OK);
    return params;
}

/* Writes gradients as a backward would leave them: none to the padding. */
static void set_gradients(ls_params *params, uint64_t step)
{
    ls_params_finish_grad(params);
    for (size_t p = 0; p < ls_params_count(params); p++) {
        ls_tensor *grad = ls_grad(ls_params_get(params, p));
        float *g = tensor_data(grad);
        for (int64_t i = 0; i < ls_tensor_count(grad); i++)
            g[i] = (float)lsi_rng_normal(key, 2 * step + p, (uint64_t)i);
    }
}

/* ---- SGD against the definition ----------------------------------------- */

typedef struct reference {
    double p, v;         /* in float64 */
    double p_err, v_err; /* what f32 may differ by, to first order */
} reference;

/* One step, and how its roundings (of 2^-24 each) and older errors add up. */
static void reference_step(reference *r, double g, double scale,
                           const ls_sgd_options *o)
{
    const double u = 0x1p-24;
    const double lr = (float)o->lr, momentum = (float)o->momentum;
    const double decay = (float)o->weight_decay;
    const double d = g * scale + decay * r->p;
    const double d_err =
        decay * r->p_err + u * (fabs(g * scale) + fabs(decay * r->p) + fabs(d));
    const double v = momentum * r->v + d;
    r->v_err =
        momentum * r->v_err + d_err + u * (fabs(momentum * r->v) + fabs(v));
    r->v = v;
    const double p = r->p - lr * v;
    r->p_err += lr * r->v_err + u * (fabs(lr * v) + fabs(p));
    r->p = p;
}

static void check_sgd(int64_t n, ls_sgd_options options, double scale)
{
    enum { STEPS = 6 };
    size_t count;
    ls_optimizer *sgd = NULL;
    ls_params *params = make_params(n);
    float *flat = flat_of(params, &count);
    reference *expected = calloc(count, sizeof *expected);
    for (size_t i = 0; i < count; i++)
        expected[i].p = flat[i];
    assert_int_equal(
        ls_optimizer_new(&sgd, params, &(ls_optimizer_spec){.sgd = &options}),
        LS_OK);
    for (uint64_t step = 0; step < STEPS; step++) {
        set_gradients(params, step);
        const float *grad = flat_grad_of(params, &count);
        assert_int_equal(ls_optimizer_step(sgd, scale), LS_OK);
        for (size_t i = 0; i < count; i++) {
            reference_step(&expected[i], grad[i], (float)scale, &options);
            assert_true(fabs(flat[i] - expected[i].p) <=
                        1.01 * expected[i].p_err);
        }
    }
    free(expected);
    ls_optimizer_free(&sgd);
    assert_null(sgd);
    ls_params_free(&params);
}

static void test_sgd_follows_its_definition(void **state)
{
    (void)state;
    static const ls_sgd_options options[] = {
        {.lr = 0.1},
        {.lr = 0.01, .momentum = 0.5},
        {.lr = 0.3, .weight_decay = 0.01},
        {.lr = 0.05, .momentum = 0.9, .weight_decay = 1e-3},
    };
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        check_sgd(1, options[i], 1);
        check_sgd(1000, options[i], 1);
        check_sgd(333, options[i], 0.25);
        check_sgd(40001, options[i], 3);
    }
}

/* Numbers that are exact: p = 1, g = 2, then 4. */
static void test_sgd_by_hand(void **state)
{
    (void)state;
    size_t count;
    ls_params *params = make_params(1);
    ls_optimizer *sgd = NULL;
    const ls_sgd_options options = {.lr = 0.25, .momentum = 0.5};
    assert_int_equal(
        ls_optimizer_new(&sgd, params, &(ls_optimizer_spec){.sgd = &options}),
        LS_OK);
    ls_params_finish_grad(params);
    float *p = flat_of(params, &count) + ls_params_offset(params, 0);
    float *g = flat_grad_of(params, &count) + ls_params_offset(params, 0);
    *p = 1;
    *g = 2;
    assert_int_equal(ls_optimizer_step(sgd, 1), LS_OK);
    assert_true(*p == 0.5F); /* v = 2 */
    *g = 4;
    assert_int_equal(ls_optimizer_step(sgd, 0.5), LS_OK);
    assert_true(*p == -0.25F); /* v = 1 + 2 */
    assert_int_equal(ls_optimizer_set_lr(sgd, 1), LS_OK);
    assert_true(ls_optimizer_lr(sgd) == 1);
    *g = 0;
    assert_int_equal(ls_optimizer_step(sgd, 1), LS_OK);
    assert_true(*p == -1.75F); /* v = 1.5 */
    assert_int_equal(ls_optimizer_set_lr(sgd, 0), LS_OK);
    assert_int_equal(ls_optimizer_step(sgd, 1), LS_OK);
    assert_true(*p == -1.75F);
    ls_optimizer_free(&sgd);
    ls_params_free(&params);
}

/* After zero_grad without a backward, old gradients have no effect. */
static void test_forgotten_gradients_count_as_zero(void **state)
{
    (void)state;
    size_t count;
    ls_params *params = make_params(50);
    ls_optimizer *sgd = NULL;
    assert_int_equal(ls_optimizer_new(&sgd, params,
                                      &(ls_optimizer_spec){
                                          .sgd = &(ls_sgd_options){.lr = 1}}),
                     LS_OK);
    set_gradients(params, 0);
    ls_params_zero_grad(params);
    float *flat = flat_of(params, &count);
    float *before = malloc(count * sizeof *before);
    memcpy(before, flat, count * sizeof *before);
    assert_int_equal(ls_optimizer_step(sgd, 1), LS_OK);
    assert_memory_equal(flat, before, count * sizeof *before);
    free(before);
    ls_optimizer_free(&sgd);
    ls_params_free(&params);
}

/* ---- every kind --------------------------------------------------------- */

enum { N = 70001, STEPS = 3 };

/* An optimizer of a rank that owns this range. */
static ls_optimizer *make_part(const lsi_optimizer_row *kind, ls_params *params,
                               lsi_range range)
{
    ls_optimizer *optimizer = NULL;
    max_align_t options[LSI_OPTIMIZER_OPTIONS / sizeof(max_align_t)] = {0};
    const lsi_param_group_spec spec = {kind, options, 0.1, NULL, 0};
    if (lsi_optimizer_find(kind->name) == kind)
        lsi_optimizer_usual_options(kind, options);
    assert_int_equal(lsi_params_set_owned(params, &range, 1), LS_OK);
    assert_int_equal(lsi_optimizer_with(&optimizer, params, &spec), LS_OK);
    return optimizer;
}

/* The parameters after some steps of ranks that own a part each, for the caller
 * to free. */
static float *run_in_parts(const lsi_optimizer_row *kind, size_t parts,
                           int threads, size_t *count)
{
    float *result = NULL;
    lsi_threads_set(threads);
    for (size_t i = 0; i < parts; i++) {
        ls_params *params = make_params(N);
        const float *flat = flat_of(params, count);
        const lsi_range own = lsi_partition(*count, parts, i);
        ls_optimizer *optimizer = make_part(kind, params, own);
        for (uint64_t step = 0; step < STEPS; step++) {
            set_gradients(params, step);
            assert_int_equal(ls_optimizer_step(optimizer, 0.5), LS_OK);
        }
        if (result == NULL)
            result = malloc(*count * sizeof *result);
        memcpy(result + own.begin, flat + own.begin,
               lsi_range_size(own) * sizeof *result);
        ls_optimizer_free(&optimizer);
        ls_params_free(&params);
    }
    return result;
}

static void check_same(const lsi_optimizer_row *kind, const float *expected,
                       size_t parts, int threads)
{
    size_t count;
    float *result = run_in_parts(kind, parts, threads, &count);
    assert_memory_equal(result, expected, count * sizeof *result);
    free(result);
}

static void check_cuts(const lsi_optimizer_row *kind)
{
    size_t count;
    float *expected = run_in_parts(kind, 1, 1, &count);
    for (int threads = 2; threads <= 4; threads++)
        check_same(kind, expected, 1, threads);
    check_same(kind, expected, 2, 1);
    check_same(kind, expected, 3, 2);
    check_same(kind, expected, 8, 1);
    free(expected);
}

static void test_threads_and_cuts_do_not_matter(void **state)
{
    (void)state;
    const int before = lsi_threads();
    size_t n;
    const lsi_optimizer_row *const *kinds = lsi_optimizer_kinds(&n);
    assert_true(n >= 1);
    for (size_t i = 0; i < n; i++)
        check_cuts(kinds[i]);
    lsi_threads_set(before);
}

/* An optimizer without an operation: SGD with momentum in plain C. */
static void update_plain(const lsi_optimizer_update *u)
{
    for (size_t i = 0; i < u->n; i++) {
        u->state[0][i] =
            0.5F * u->state[0][i] + (float)u->grad_scale * u->grad[i];
        u->param[i] -= (float)u->lr * u->state[0][i];
    }
}

static ls_status accept(const void *options)
{
    (void)options;
    return LS_OK;
}

static int one_state(const void *options)
{
    (void)options;
    return 1;
}

static void test_plain_c_is_enough(void **state)
{
    (void)state;
    static const lsi_optimizer_row plain = {.name = "plain",
                                            .options_bytes = sizeof(double),
                                            .state_names = {"mean"},
                                            .check = accept,
                                            .n_states = one_state,
                                            .update_part = update_plain};
    const int before = lsi_threads();
    check_cuts(&plain);
    lsi_threads_set(before);
}

/* A part changes nothing outside of its range, and may be empty. */
static void test_a_range_is_kept_to(void **state)
{
    (void)state;
    size_t n, count;
    const lsi_optimizer_row *const *kinds = lsi_optimizer_kinds(&n);
    static const lsi_range ranges[] = {{16, 48}, {5, 6}, {20, 20}};
    for (size_t i = 0; i < n * 3; i++) {
        const lsi_optimizer_row *kind = kinds[i / 3];
        const lsi_range range = ranges[i % 3];
        ls_params *params = make_params(100);
        float *flat = flat_of(params, &count);
        float *before = malloc(count * sizeof *before);
        memcpy(before, flat, count * sizeof *before);
        ls_optimizer *optimizer = NULL;
        optimizer = make_part(kind, params, range);
        set_gradients(params, 1);
        assert_int_equal(ls_optimizer_step(optimizer, 1), LS_OK);
        for (size_t e = 0; e < count; e++)
            assert_int_equal(flat[e] != before[e],
                             e >= range.begin && e < range.end);
        free(before);
        ls_optimizer_free(&optimizer);
        ls_params_free(&params);
    }
}

/* ---- memory and errors -------------------------------------------------- */

static size_t state_bytes(void)
{
    ls_memory_stats stats;
    ls_memory_of(LS_MEMORY_STATE, &stats);
    return stats.live_bytes;
}

static void test_state_is_counted(void **state)
{
    (void)state;
    size_t count;
    ls_params *params = make_params(1000);
    ls_optimizer *sgd = NULL;
    (void)flat_of(params, &count);
    const size_t before = state_bytes();
    ls_sgd_options options = {.lr = 1};
    assert_int_equal(
        ls_optimizer_new(&sgd, params, &(ls_optimizer_spec){.sgd = &options}),
        LS_OK);
    assert_true(state_bytes() < before + count * sizeof(float));
    ls_optimizer_free(&sgd);
    options.momentum = 0.5;
    assert_int_equal(
        ls_optimizer_new(&sgd, params, &(ls_optimizer_spec){.sgd = &options}),
        LS_OK);
    const size_t with = state_bytes() - before;
    assert_in_range(with, count * sizeof(float), count * sizeof(float) + 1024);
    ls_optimizer_free(&sgd);
    assert_int_equal(state_bytes(), before);

    ls_memory_stats total;
    ls_memory_total(&total);
    ls_memory_set_budget(total.live_bytes + count * sizeof(float) / 2);
    const ls_status status =
        ls_optimizer_new(&sgd, params, &(ls_optimizer_spec){.sgd = &options});
    ls_memory_set_budget(0);
    assert_int_equal(status, LS_ERR_BUDGET);
    assert_null(sgd);
    assert_int_equal(state_bytes(), before);
    ls_params_free(&params);
}

static void check_refused(ls_params *params, ls_sgd_options options,
                          const char *what)
{
    ls_optimizer *sgd = NULL;
    assert_int_equal(
        ls_optimizer_new(&sgd, params, &(ls_optimizer_spec){.sgd = &options}),
        LS_ERR_ARGUMENT);
    assert_null(sgd);
    assert_non_null(strstr(ls_last_error(), what));
}

static void test_bad_options(void **state)
{
    (void)state;
    ls_params *params = make_params(3);
    static const double bad_lr[] = {-0.1, 1e-60, 1e60, INFINITY, NAN};
    for (size_t i = 0; i < sizeof bad_lr / sizeof bad_lr[0]; i++)
        check_refused(params, (ls_sgd_options){.lr = bad_lr[i]}, "sgd: lr is");
    static const double bad_momentum[] = {-0.1, 1, 1.5, 0.99999999999, NAN};
    for (size_t i = 0; i < sizeof bad_momentum / sizeof bad_momentum[0]; i++)
        check_refused(params,
                      (ls_sgd_options){.lr = 1, .momentum = bad_momentum[i]},
                      "sgd: momentum is");
    static const double bad_decay[] = {-1e-9, INFINITY, NAN};
    for (size_t i = 0; i < sizeof bad_decay / sizeof bad_decay[0]; i++)
        check_refused(params,
                      (ls_sgd_options){.lr = 1, .weight_decay = bad_decay[i]},
                      "sgd: weight_decay is");
    ls_params_free(&params);
}

/* The defaults of the command line are those of C programs. */
static void test_defaults_of_flags(void **state)
{
    (void)state;
    const ls_sgd_options sgd = LS_SGD_OPTIONS_INIT;
    const ls_adamw_options adamw = LS_ADAMW_OPTIONS_INIT;
    const ls_lion_options lion = LS_LION_OPTIONS_INIT;
    ls_sgd_options a;
    ls_adamw_options b;
    ls_lion_options c;
    lsi_optimizer_usual_options(&lsi_optimizer_sgd, &a);
    lsi_optimizer_usual_options(&lsi_optimizer_adamw, &b);
    lsi_optimizer_usual_options(&lsi_optimizer_lion, &c);
    assert_true(a.lr == sgd.lr && a.momentum == sgd.momentum &&
                a.weight_decay == sgd.weight_decay);
    assert_true(b.lr == adamw.lr && b.beta1 == adamw.beta1 &&
                b.beta2 == adamw.beta2 && b.eps == adamw.eps &&
                b.weight_decay == adamw.weight_decay && b.order == adamw.order);
    assert_true(c.lr == lion.lr && c.beta1 == lion.beta1 &&
                c.beta2 == lion.beta2 && c.weight_decay == lion.weight_decay);
}

/* Each row by its own name, whatever its own check looks at. */
static void test_every_row_refuses_bad_rates(void **state)
{
    (void)state;
    size_t n;
    const lsi_optimizer_row *const *kinds = lsi_optimizer_kinds(&n);
    ls_params *params = make_params(3);
    static const double bad_lr[] = {0, -0.1, INFINITY, NAN};
    for (size_t i = 0; i < n * 4; i++) {
        const lsi_optimizer_row *kind = kinds[i / 4];
        max_align_t options[LSI_OPTIMIZER_OPTIONS / sizeof(max_align_t)] = {0};
        const lsi_param_group_spec spec = {kind, options, bad_lr[i % 4], NULL,
                                           0};
        ls_optimizer *made = NULL;
        lsi_optimizer_usual_options(kind, options);
        assert_int_equal(lsi_optimizer_with(&made, params, &spec),
                         LS_ERR_ARGUMENT);
        char begin[64];
        snprintf(begin, sizeof begin, "%s: lr is", kind->name);
        assert_non_null(strstr(ls_last_error(), begin));
    }
    ls_params_free(&params);
}

static void test_bad_calls(void **state)
{
    (void)state;
    ls_params *params = NULL;
    ls_optimizer *sgd = NULL;
    assert_int_equal(ls_params_new(&params), LS_OK);
    assert_int_equal(ls_optimizer_new(&sgd, params,
                                      &(ls_optimizer_spec){
                                          .sgd = &(ls_sgd_options){.lr = 1}}),
                     LS_ERR_STATE);
    assert_non_null(strstr(ls_last_error(), "ls_params_allocate"));
    ls_params_free(&params);

    params = make_params(3);
    assert_int_equal(ls_optimizer_new(&sgd, params,
                                      &(ls_optimizer_spec){
                                          .sgd = &(ls_sgd_options){.lr = 1}}),
                     LS_OK);
    assert_int_equal(ls_optimizer_step(sgd, NAN), LS_ERR_ARGUMENT);
    assert_int_equal(ls_optimizer_step(sgd, INFINITY), LS_ERR_ARGUMENT);
    assert_int_equal(ls_optimizer_set_lr(sgd, -1), LS_ERR_ARGUMENT);
    assert_int_equal(ls_optimizer_set_lr(sgd, NAN), LS_ERR_ARGUMENT);
    assert_true(ls_optimizer_lr(sgd) == 1);
    ls_optimizer_free(&sgd);
    ls_optimizer_free(&sgd);
    ls_optimizer_free(NULL);
    ls_params_free(&params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sgd_follows_its_definition),
        cmocka_unit_test(test_sgd_by_hand),
        cmocka_unit_test(test_forgotten_gradients_count_as_zero),
        cmocka_unit_test(test_threads_and_cuts_do_not_matter),
        cmocka_unit_test(test_plain_c_is_enough),
        cmocka_unit_test(test_a_range_is_kept_to),
        cmocka_unit_test(test_state_is_counted),
        cmocka_unit_test(test_bad_options),
        cmocka_unit_test(test_defaults_of_flags),
        cmocka_unit_test(test_every_row_refuses_bad_rates),
        cmocka_unit_test(test_bad_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
