/*
 * Lion against its formulas in double, with a running bound on what f32 may be
 * off by.
 */
#include <math.h>
#include <stdlib.h>

#include "flat.h"
#include "lockstep/optim.h"
#include "optim_set.h"

/* One element in double, and what f32 may differ by, to first order. */
typedef struct element {
    double p, m;
    double p_err, m_err;
} element;

static const double u = 0x1p-24;

static double sign(double x)
{
    return (x > 0) - (x < 0);
}

/* Each factor and each product is rounded once, and the sum. */
static double mean_err(double beta, double g, const element *e, double mean)
{
    const double share = (1 - beta) * g;
    return beta * (e->m_err + u * fabs(e->m)) + 3 * u * fabs(share) +
           u * fabs(mean);
}

static void advance(element *e, double g, const ls_lion_options *o)
{
    const double c = o->beta1 * e->m + (1 - o->beta1) * g;
    const double c_err = mean_err(o->beta1, g, e, c);
    const double m = o->beta2 * e->m + (1 - o->beta2) * g;
    const double decay = o->lr * o->weight_decay, old = fabs(e->p);
    e->p += -decay * e->p - o->lr * sign(c);
    e->p_err += 2 * u * decay * old + 2 * u * (old + o->lr) + u * o->lr;
    if (fabs(c) <= c_err) /* f32 may take either sign */
        e->p_err += 2 * o->lr;
    e->m_err = mean_err(o->beta2, g, e, m);
    e->m = m;
}

static void check(int64_t n, ls_lion_options options, double scale)
{
    enum { STEPS = 12 };
    size_t count;
    ls_optimizer *lion = NULL;
    ls_params *params = make_set(&n, 1);
    const float *flat = flat_of(params, &count);
    const float *grad = flat_grad_of(params, &count);
    element *expected = calloc((size_t)n, sizeof *expected);
    int64_t unsure = 0;
    for (int64_t i = 0; i < n; i++)
        expected[i].p = flat[i];
    assert_ok(ls_optimizer_new(&lion, params,
                               &(ls_optimizer_spec){.lion = &options}));
    for (uint64_t step = 0; step < STEPS; step++) {
        set_gradients(params, step);
        assert_ok(ls_optimizer_step(lion, scale));
        for (int64_t i = 0; i < n; i++) {
            const double g = (double)grad[i] * (float)scale;
            advance(&expected[i], g, &options);
            const double off = fabs(flat[i] - expected[i].p);
            unsure += expected[i].p_err > options.lr;
            if (!(off <= 1.01 * expected[i].p_err))
                fail_msg("step %d, element %lld of %lld: off by %g, bound %g",
                         (int)step, (long long)i, (long long)n, off,
                         expected[i].p_err);
        }
    }
    assert_true(unsure * 1000 <= n * STEPS); /* or nothing was tested */
    free(expected);
    ls_optimizer_free(&lion);
    ls_params_free(&params);
}

static void follows_its_formulas(void **state)
{
    (void)state;
    static const int64_t lengths[] = {1, 2, 15, 17, 1000, 40001};
    for (size_t i = 0; i < TEST_COUNT(lengths); i++) {
        ls_lion_options o = LS_LION_OPTIONS_INIT;
        check(lengths[i], o, 1);
        o.lr = 0.125;
        o.weight_decay = 0.1;
        o.beta1 = 0.5;
        o.beta2 = 0.75;
        check(lengths[i], o, 0.25);
    }
}

/* By hand: a step is lr long, whatever the gradient, and 0 moves nothing. */
static void the_sign_is_the_step(void **state)
{
    (void)state;
    static const float gradients[] = {1e-30F, -1e30F, 0, -0.0F, NAN};
    static const float expected[] = {7.5F, 8.5F, 8, 8, NAN};
    size_t count;
    const int64_t n = TEST_COUNT(gradients);
    ls_params *params = make_set(&n, 1);
    ls_optimizer *lion = NULL;
    ls_lion_options o = LS_LION_OPTIONS_INIT;
    o.weight_decay = 0;
    o.lr = 0.5;
    float *flat = flat_of(params, &count);
    ls_params_finish_grad(params);
    float *grad = flat_grad_of(params, &count);
    for (int64_t i = 0; i < n; i++) {
        flat[i] = 8;
        grad[i] = gradients[i];
    }
    assert_ok(
        ls_optimizer_new(&lion, params, &(ls_optimizer_spec){.lion = &o}));
    assert_ok(ls_optimizer_step(lion, 1));
    for (int64_t i = 0; i < n; i++)
        assert_true(flat[i] == expected[i] ||
                    (isnan(flat[i]) && isnan(expected[i])));
    ls_optimizer_free(&lion);
    ls_params_free(&params);
}

static void check_refused(ls_lion_options o, const char *what)
{
    const int64_t n = 3;
    ls_optimizer *lion = NULL;
    ls_params *params = make_set(&n, 1);
    assert_error(
        ls_optimizer_new(&lion, params, &(ls_optimizer_spec){.lion = &o}),
        LS_ERR_ARGUMENT, what);
    assert_null(lion);
    ls_params_free(&params);
}

static void bad_options(void **state)
{
    (void)state;
    static const double bad[] = {-1, 1e60, INFINITY, NAN};
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        ls_lion_options o = LS_LION_OPTIONS_INIT;
        o.lr = bad[i];
        check_refused(o, "lion: lr is");
        o = (ls_lion_options)LS_LION_OPTIONS_INIT;
        o.beta1 = bad[i];
        check_refused(o, "lion: beta1 is");
        o = (ls_lion_options)LS_LION_OPTIONS_INIT;
        o.beta2 = bad[i] == -1 ? 1 : bad[i];
        check_refused(o, "lion: beta2 is");
        o = (ls_lion_options)LS_LION_OPTIONS_INIT;
        o.weight_decay = bad[i];
        check_refused(o, "lion: weight_decay is");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_its_formulas),
        cmocka_unit_test(the_sign_is_the_step),
        cmocka_unit_test(bad_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
