/*
 * AdamW against its formulas in double, in both orders, with a running bound on
 * what f32 may be off by.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "flat.h"
#include "lockstep/optim.h"
#include "optim_set.h"

/* One element in double, and what f32 may differ by, to first order. */
typedef struct element {
    double p, m, v;
    double p_err, m_err, v_err;
} element;

static const double u = 0x1p-24;

/* The options as the kernel has them, each rounded once. */
static ls_adamw_options rounded(ls_adamw_options o)
{
    o.eps = (float)o.eps;
    return o;
}

static double corrected(const element *e, const ls_adamw_options *o, double t,
                        double *size)
{
    const double mean = 1 - pow(o->beta1, t);
    const double root = sqrt(1 - pow(o->beta2, t));
    if (o->order == LS_ADAMW_DECAY_FIRST) {
        *size = sqrt(e->v) / root + o->eps;
        return o->lr / mean * e->m / *size;
    }
    *size = sqrt(e->v) + o->eps;
    return o->lr * root / mean * e->m / *size;
}

static void advance(element *e, double g, double t, const ls_adamw_options *o)
{
    const double share1 = (1 - o->beta1) * g, share2 = (1 - o->beta2) * g * g;
    /* Each factor and each product is rounded once, and the sum. */
    e->m_err = o->beta1 * (e->m_err + u * fabs(e->m)) + 3 * u * fabs(share1);
    e->v_err = o->beta2 * (e->v_err + u * e->v) + 5 * u * share2;
    e->m = o->beta1 * e->m + share1;
    e->v = o->beta2 * e->v + share2;
    e->m_err += u * fabs(e->m);
    e->v_err += u * e->v;
    double size;
    const double moved = corrected(e, o, t, &size);
    const double ratio = e->v > 0 ? e->v_err / (2 * e->v) : 0;
    const double moved_err =
        (e->m != 0 ? fabs(moved) * e->m_err / fabs(e->m) : 0) +
        fabs(moved) * (ratio + 5 * u);
    const double decay = o->lr * o->weight_decay;
    const double old = fabs(e->p);
    e->p = o->order == LS_ADAMW_DECAY_FIRST ? e->p * (1 - decay) - moved
                                            : (e->p - moved) * (1 - decay);
    e->p_err += moved_err + 2 * u * decay * old + 2 * u * (old + fabs(moved));
}

static void check(int64_t n, ls_adamw_options options, double scale)
{
    enum { STEPS = 12 };
    size_t count;
    ls_optimizer *adamw = NULL;
    ls_params *params = make_set(&n, 1);
    float *flat = flat_of(params, &count);
    const float *grad = flat_grad_of(params, &count);
    element *expected = calloc((size_t)n, sizeof *expected);
    for (int64_t i = 0; i < n; i++)
        expected[i].p = flat[i];
    assert_ok(ls_optimizer_new(&adamw, params,
                               &(ls_optimizer_spec){.adamw = &options}));
    const ls_adamw_options o = rounded(options);
    for (uint64_t step = 0; step < STEPS; step++) {
        set_gradients(params, step);
        assert_ok(ls_optimizer_step(adamw, scale));
        for (int64_t i = 0; i < n; i++) {
            const double g = (double)grad[i] * (float)scale;
            advance(&expected[i], g, (double)step + 1, &o);
            const double off = fabs(flat[i] - expected[i].p);
            if (!(off <= 1.01 * expected[i].p_err))
                fail_msg("step %d, element %lld of %lld: off by %g, bound %g",
                         (int)step, (long long)i, (long long)n, off,
                         expected[i].p_err);
        }
    }
    free(expected);
    ls_optimizer_free(&adamw);
    ls_params_free(&params);
}

static void follows_its_formulas(void **state)
{
    (void)state;
    static const int64_t lengths[] = {1, 2, 15, 17, 1000, 40001};
    for (size_t i = 0; i < TEST_COUNT(lengths); i++) {
        for (int order = 0; order < 2; order++) {
            ls_adamw_options o = LS_ADAMW_OPTIONS_INIT;
            o.order = (ls_adamw_order)order;
            check(lengths[i], o, 1);
            o.lr = 0.1;
            o.weight_decay = 0.1;
            o.beta2 = 0.95;
            o.eps = 1e-3;
            check(lengths[i], o, 0.25);
        }
    }
}

/* With eps as large as the gradients the two places differ plainly. */
static void the_orders_differ(void **state)
{
    (void)state;
    const int64_t one = 1;
    double after[2];
    for (int order = 0; order < 2; order++) {
        size_t count;
        ls_params *params = make_set(&one, 1);
        ls_optimizer *adamw = NULL;
        ls_adamw_options o = {.lr = 0.5,
                              .beta1 = 0.5,
                              .beta2 = 0.75,
                              .eps = 1,
                              .weight_decay = 0.5};
        o.order = (ls_adamw_order)order;
        flat_of(params, &count)[0] = 8;
        ls_params_finish_grad(params);
        flat_grad_of(params, &count)[0] = 2;
        assert_ok(ls_optimizer_new(&adamw, params,
                                   &(ls_optimizer_spec){.adamw = &o}));
        assert_ok(ls_optimizer_step(adamw, 1));
        after[order] = flat_of(params, &count)[0];
        ls_optimizer_free(&adamw);
        ls_params_free(&params);
    }
    /* m = 1, v = 1, corrected to 2 and 4; 6 - 0.5 * 2 / (2 + 1). */
    assert_true(fabs(after[0] - (6 - 1.0 / 3)) < 1e-6);
    /* (8 - 0.5 * 0.5 / 0.5 * 1 / (1 + 1)) * 0.75 */
    assert_true(fabs(after[1] - 7.75 * 0.75) < 1e-6);
}

/* No gradient, no step, even with an eps that is hardly there. */
static void zero_gradients_keep_zero_still(void **state)
{
    (void)state;
    size_t count;
    const int64_t n = 100;
    ls_params *params = make_set(&n, 1);
    ls_optimizer *adamw = NULL;
    ls_adamw_options o = LS_ADAMW_OPTIONS_INIT;
    o.weight_decay = 0;
    float *flat = flat_of(params, &count);
    float *before = malloc(count * sizeof *before);
    memcpy(before, flat, count * sizeof *before);
    assert_ok(
        ls_optimizer_new(&adamw, params, &(ls_optimizer_spec){.adamw = &o}));
    ls_params_zero_grad(params);
    for (int step = 0; step < 3; step++)
        assert_ok(ls_optimizer_step(adamw, 1));
    assert_memory_equal(flat, before, count * sizeof *before);
    assert_ok(ls_optimizer_set_lr(adamw, 0));
    set_gradients(params, 1);
    assert_ok(ls_optimizer_step(adamw, 1));
    assert_memory_equal(flat, before, count * sizeof *before);
    free(before);
    ls_optimizer_free(&adamw);
    ls_params_free(&params);
}

static void check_refused(ls_adamw_options o, const char *what)
{
    const int64_t n = 3;
    ls_optimizer *adamw = NULL;
    ls_params *params = make_set(&n, 1);
    assert_error(
        ls_optimizer_new(&adamw, params, &(ls_optimizer_spec){.adamw = &o}),
        LS_ERR_ARGUMENT, what);
    assert_null(adamw);
    ls_params_free(&params);
}

static void bad_options(void **state)
{
    (void)state;
    static const double bad[] = {-1, 1e60, INFINITY, NAN};
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        ls_adamw_options o = LS_ADAMW_OPTIONS_INIT;
        o.lr = bad[i];
        check_refused(o, "adamw: lr is");
        o = (ls_adamw_options)LS_ADAMW_OPTIONS_INIT;
        o.beta1 = bad[i];
        check_refused(o, "adamw: beta1 is");
        o = (ls_adamw_options)LS_ADAMW_OPTIONS_INIT;
        o.beta2 = bad[i] == -1 ? 1 : bad[i];
        check_refused(o, "adamw: beta2 is");
        o = (ls_adamw_options)LS_ADAMW_OPTIONS_INIT;
        o.eps = bad[i];
        check_refused(o, "adamw: eps is");
        o = (ls_adamw_options)LS_ADAMW_OPTIONS_INIT;
        o.weight_decay = bad[i];
        check_refused(o, "adamw: weight_decay is");
    }
    ls_adamw_options o = LS_ADAMW_OPTIONS_INIT;
    o.order = (ls_adamw_order)2;
    check_refused(o, "adamw: unknown order of weight decay 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_its_formulas),
        cmocka_unit_test(the_orders_differ),
        cmocka_unit_test(zero_gradients_keep_zero_still),
        cmocka_unit_test(bad_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
