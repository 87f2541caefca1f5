/*
 * Clipping and schedules against their formulas; a norm has the same bits
 * whatever ranges and threads it is summed by.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "array/compute/threads.h"
#include "array/kernels/kernels.h"
#include "flat.h"
#include "lockstep/optim.h"
#include "model/autograd/params.h"
#include "optim_set.h"

/* ---- clipping ------------------------------------------------------------ */

static void check_norm(int64_t n, double scale, double max_norm)
{
    size_t count;
    ls_params *params = make_set(&n, 1);
    ls_clip *clip = NULL;
    set_gradients(params, 3);
    const float *grad = flat_grad_of(params, &count);
    long double squares = 0;
    for (size_t i = 0; i < count; i++)
        squares += (long double)grad[i] * grad[i];
    const double want = (double)sqrtl(squares) * scale;
    double got = scale, norm = -1;
    assert_ok(ls_clip_new(&clip, params, max_norm));
    assert_ok(ls_clip_grad(clip, &got, &norm, NULL));
    /* Half of the additions' roundings in double, and a few more. */
    const double bound = ((double)n / 2 + 8) * 0x1p-53;
    assert_true(fabs(norm - want) <= bound * want);
    const double factor = fmin(1, max_norm / (want + 1e-6));
    assert_true(fabs(got - scale * factor) <= 2 * bound * scale * factor);
    ls_clip_free(&clip);
    assert_null(clip);
    ls_clip_free(&clip);
    ls_clip_free(NULL);
    ls_params_free(&params);
}

static void follows_its_formula(void **state)
{
    (void)state;
    static const int64_t lengths[] = {0, 1, 15, 511, 513, 30000, 100003};
    for (size_t i = 0; i < TEST_COUNT(lengths); i++) {
        check_norm(lengths[i], 1, 1);
        check_norm(lengths[i], 0.03, 1);
        check_norm(lengths[i], 1, 1e6);
    }
}

/* 3 and 4 make 5; a norm of exactly the limit is multiplied, too. */
static void by_hand(void **state)
{
    (void)state;
    const int64_t two = 2;
    size_t count;
    ls_params *params = make_set(&two, 1);
    ls_clip *clip = NULL;
    double scale = 1, norm = 0;
    ls_params_finish_grad(params);
    float *grad = flat_grad_of(params, &count);
    grad[0] = 3;
    grad[1] = -4;
    assert_ok(ls_clip_new(&clip, params, 5));
    assert_ok(ls_clip_grad(clip, &scale, &norm, NULL));
    assert_true(norm == 5);
    assert_true(scale == 5 / (5 + 1e-6));
    scale = -2;
    assert_ok(ls_clip_grad(clip, &scale, NULL, NULL));
    assert_true(scale == -2 * (5 / (10 + 1e-6)));
    /* Gradients that were not written count as zero. */
    ls_params_zero_grad(params);
    scale = 1;
    assert_ok(ls_clip_grad(clip, &scale, &norm, NULL));
    assert_true(norm == 0 && scale == 1);
    ls_clip_free(&clip);
    ls_params_free(&params);
}

enum { MOST_BLOCKS = 4096 };

/* Adds the sums of this part to those of the parts before. */
static ls_status add_up(void *context, double *sums, size_t n)
{
    double *total = context;
    assert_true(n <= MOST_BLOCKS);
    for (size_t b = 0; b < n; b++)
        total[b] += sums[b];
    memcpy(sums, total, n * sizeof(double));
    return LS_OK;
}

/* The norm that the last of `parts` ranks gets. */
static double norm_by_parts(ls_params *params, ls_clip *clip, size_t parts)
{
    double total[MOST_BLOCKS] = {0}, norm = NAN;
    lsi_params_owner owner = {.context = total, .add_up = add_up};
    params->sharing.owner = &owner;
    for (size_t p = parts; p-- > 0;) {
        double scale = 1;
        owner.reduced = lsi_partition_aligned(params->storage.count, parts, p,
                                              LSI_SQUARES_BLOCK);
        assert_ok(ls_clip_grad(clip, &scale, &norm, NULL));
    }
    params->sharing.owner = NULL;
    return norm;
}

static void parts_and_threads_do_not_matter(void **state)
{
    (void)state;
    const int before = lsi_threads();
    const int64_t lengths[] = {70001, 3};
    double scale = 1, expected;
    ls_params *params = make_set(lengths, 2);
    ls_clip *clip = NULL;
    set_gradients(params, 1);
    assert_ok(ls_clip_new(&clip, params, 1));
    lsi_threads_set(1);
    assert_ok(ls_clip_grad(clip, &scale, &expected, NULL));
    for (size_t parts = 1; parts <= 8; parts++) {
        lsi_threads_set((int)(parts % 4) + 1);
        assert_true(norm_by_parts(params, clip, parts) == expected);
    }
    assert_true(norm_by_parts(params, clip, 500) == expected);
    lsi_threads_set(before);
    ls_clip_free(&clip);
    ls_params_free(&params);
}

static void what_is_refused(void **state)
{
    (void)state;
    static const double bad[] = {0, -1, INFINITY, NAN};
    const int64_t n = 5;
    size_t count;
    ls_params *params = NULL;
    ls_clip *clip = NULL;
    double scale = 1, norm;
    bool finite;
    assert_ok(ls_params_new(&params));
    assert_error(ls_clip_new(&clip, params, 1), LS_ERR_STATE,
                 "ls_params_allocate");
    ls_params_free(&params);
    params = make_set(&n, 1);
    for (size_t i = 0; i < TEST_COUNT(bad); i++)
        assert_error(ls_clip_new(&clip, params, bad[i]), LS_ERR_ARGUMENT,
                     "max_norm");
    assert_ok(ls_clip_new(&clip, params, 1));
    for (size_t i = 2; i < TEST_COUNT(bad); i++) {
        set_gradients(params, 0);
        flat_grad_of(params, &count)[2] = (float)bad[i];
        assert_error(ls_clip_grad(clip, &scale, NULL, NULL), LS_ERR_ARGUMENT,
                     "gradient norm");
        assert_true(scale == 1);
        finite = true;
        assert_ok(ls_clip_grad(clip, &scale, &norm, &finite));
        assert_true(scale == 1 && !finite && !isfinite(norm));
    }
    ls_clip_free(&clip);
    ls_params_free(&params);
}

/* ---- schedules ----------------------------------------------------------- */

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-15 * fabs(b) + 1e-18;
}

static void cosine(void **state)
{
    (void)state;
    const ls_lr_schedule s = {.kind = LS_LR_COSINE,
                              .max_lr = 0.5,
                              .min_lr = 0.1,
                              .warmup_steps = 10,
                              .total_steps = 110};
    assert_true(ls_lr_at(&s, 0) == 0);
    assert_true(near(ls_lr_at(&s, 3), 0.15));
    assert_true(ls_lr_at(&s, 10) == 0.5);
    assert_true(near(ls_lr_at(&s, 35), 0.3 + 0.2 * sqrt(0.5)));
    assert_true(near(ls_lr_at(&s, 60), 0.3));
    assert_true(near(ls_lr_at(&s, 110), 0.1));
    assert_true(ls_lr_at(&s, 111) == 0.1);
    assert_true(ls_lr_at(&s, INT64_MAX) == 0.1);
    for (int64_t step = 11; step < 112; step++)
        assert_true(ls_lr_at(&s, step) <= ls_lr_at(&s, step - 1));
    /* Nothing but warm-up, or less than it. */
    const ls_lr_schedule all = {.kind = LS_LR_COSINE,
                                .max_lr = 0.5,
                                .min_lr = 0.1,
                                .warmup_steps = 10,
                                .total_steps = 10};
    assert_true(ls_lr_at(&all, 9) == 0.45 && ls_lr_at(&all, 10) == 0.5);
    assert_true(ls_lr_at(&all, 11) == 0.1);
    const ls_lr_schedule cut = {.kind = LS_LR_COSINE,
                                .max_lr = 0.5,
                                .min_lr = 0.1,
                                .warmup_steps = 10,
                                .total_steps = 5};
    assert_true(ls_lr_at(&cut, 9) == 0.45 && ls_lr_at(&cut, 10) == 0.1);
}

static void other_falls(void **state)
{
    (void)state;
    const ls_lr_schedule line = {.kind = LS_LR_LINEAR,
                                 .max_lr = 0.5,
                                 .min_lr = 0.1,
                                 .warmup_steps = 10,
                                 .total_steps = 110};
    assert_true(near(ls_lr_at(&line, 3), 0.15));
    assert_true(ls_lr_at(&line, 10) == 0.5);
    assert_true(near(ls_lr_at(&line, 35), 0.4));
    assert_true(near(ls_lr_at(&line, 110), 0.1));
    assert_true(near(ls_lr_at(&line, INT64_MAX), 0.1));
    ls_lr_schedule root = {.kind = LS_LR_INVERSE_SQRT,
                           .max_lr = 0.5,
                           .min_lr = 0.1,
                           .warmup_steps = 16};
    assert_true(ls_lr_at(&root, 8) == 0.25 && ls_lr_at(&root, 16) == 0.5);
    assert_true(near(ls_lr_at(&root, 64), 0.25));
    assert_true(near(ls_lr_at(&root, 100), 0.2));
    assert_true(ls_lr_at(&root, 4000) == 0.1);
    root.warmup_steps = 0;
    assert_true(ls_lr_at(&root, 0) == 0.5 && ls_lr_at(&root, 1) == 0.5);
    assert_true(near(ls_lr_at(&root, 4), 0.25));
    ls_lr_schedule wsd = {.kind = LS_LR_WSD,
                          .max_lr = 0.5,
                          .min_lr = 0.1,
                          .warmup_steps = 10,
                          .total_steps = 110,
                          .decay_steps = 40};
    assert_true(ls_lr_at(&wsd, 5) == 0.25 && ls_lr_at(&wsd, 70) == 0.5);
    assert_true(near(ls_lr_at(&wsd, 90), 0.3));
    assert_true(near(ls_lr_at(&wsd, 110), 0.1));
    wsd.decay_steps = 0; /* 11 */
    assert_true(ls_lr_at(&wsd, 99) == 0.5);
    assert_true(near(ls_lr_at(&wsd, 110), 0.1));
}

/* As torch.optim.lr_scheduler.OneCycleLR(max_lr=0.5, total_steps=100). */
static void one_cycle(void **state)
{
    (void)state;
    static const struct {
        int64_t step;
        double lr;
    } torch[] = {{0, 0.020000000000000018},
                 {7, 0.08576108193844861},
                 {29, 0.5},
                 {30, 0.49974826764226216},
                 {64, 0.250001},
                 {98, 0.00025373235773789394},
                 {99, 2e-06}};
    const ls_lr_schedule s = {.kind = LS_LR_ONE_CYCLE,
                              .max_lr = 0.5,
                              .min_lr = 0.5 / 25 / 1e4,
                              .total_steps = 100};
    for (size_t i = 0; i < TEST_COUNT(torch); i++)
        assert_true(fabs(ls_lr_at(&s, torch[i].step) - torch[i].lr) <= 1e-15);
    ls_lr_schedule own = s;
    own.warmup_steps = 11;
    assert_true(near(ls_lr_at(&own, 10), 0.5));
    assert_true(near(ls_lr_at(&own, 5), 0.26));
}

static void constant(void **state)
{
    (void)state;
    const ls_lr_schedule s = {.kind = LS_LR_CONSTANT,
                              .max_lr = 0.5,
                              .min_lr = 0.1,
                              .warmup_steps = 4,
                              .total_steps = 20};
    assert_true(ls_lr_at(&s, 0) == 0 && ls_lr_at(&s, 1) == 0.125);
    assert_true(ls_lr_at(&s, 4) == 0.5 && ls_lr_at(&s, 1000) == 0.5);
    const ls_lr_schedule plain = {.max_lr = 0.25};
    assert_true(ls_lr_at(&plain, 0) == 0.25);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_its_formula),
        cmocka_unit_test(by_hand),
        cmocka_unit_test(parts_and_threads_do_not_matter),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(cosine),
        cmocka_unit_test(other_falls),
        cmocka_unit_test(one_cycle),
        cmocka_unit_test(constant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
