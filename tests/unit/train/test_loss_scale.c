/*
 * Loss scaling: when the scale moves, and steps that all ranks skip because one
 * rank's gradients overflow.
 */
#include "testing.h"

#include <math.h>

#include "lockstep/parallel.h"
#include "model/parallel/ddp.h"
#include "model/parallel/strategy.h"
#include "train/recipe.h"
#include "unit/comm/ranks.h"

/* ---- the scale ----------------------------------------------------------- */

static void it_moves_by_its_factors(void **state)
{
    (void)state;
    ls_loss_scale s = {
        .scale = 64, .growth = 2, .backoff = 0.25, .interval = 3};
    assert_ok(ls_loss_scale_check(&s));
    const struct {
        bool finite;
        double scale;
        int64_t good_steps;
    } steps[] = {{true, 64, 1},  {true, 64, 2},  {true, 128, 0},
                 {true, 128, 1}, {false, 32, 0}, {false, 8, 0},
                 {true, 8, 1},   {true, 8, 2},   {true, 16, 0}};
    for (size_t i = 0; i < TEST_COUNT(steps); i++) {
        assert_ok(ls_loss_scale_update(&s, steps[i].finite));
        assert_true(s.scale == steps[i].scale);
        assert_int_equal(s.good_steps, steps[i].good_steps);
    }
    assert_int_equal(s.skipped, 2);
}

static void it_has_ends(void **state)
{
    (void)state;
    ls_loss_scale s = ls_loss_scale_defaults();
    assert_ok(ls_loss_scale_check(&s));
    assert_true(s.scale == 65536 && s.interval == 2000);
    for (int i = 0; i < 40; i++)
        assert_ok(ls_loss_scale_update(&s, false));
    assert_true(s.scale == 0x1p-24);
    assert_error(ls_loss_scale_update(&s, false), LS_ERR_ARGUMENT,
                 "even at the smallest loss scale");
    assert_ok(ls_loss_scale_check(&s));
    s.interval = 1;
    for (int i = 0; i < 100; i++)
        assert_ok(ls_loss_scale_update(&s, true));
    assert_true(s.scale == 0x1p+60);
    assert_ok(ls_loss_scale_check(&s));
}

static void what_is_no_scale(void **state)
{
    (void)state;
    ls_loss_scale s = ls_loss_scale_defaults();
    s.backoff = 1;
    assert_error(ls_loss_scale_check(&s), LS_ERR_ARGUMENT,
                 "backoff is 1; it must be above 0 and below 1");
    s = ls_loss_scale_defaults();
    s.scale = NAN;
    assert_error(ls_loss_scale_check(&s), LS_ERR_ARGUMENT,
                 "scale is nan; it must be from 2^-24 to 2^60");
    s = ls_loss_scale_defaults();
    s.interval = 0;
    assert_error(ls_loss_scale_check(&s), LS_ERR_ARGUMENT,
                 "interval is 0; it must be at least 1");
}

/* ---- overflow ------------------------------------------------------------ */

enum { N = 1501 };

typedef struct how {
    ls_ddp_strategy strategy;
    double clip_norm;
} how;

typedef struct job {
    ls_params *params;
    ls_tensor *weight, *x;
    ls_tape *tape;
    ls_ddp *ddp;
    lsi_stepper stepper;
} job;

static void open_job(job *j, ls_group *group, const how *h)
{
    const int64_t shape[] = {N, 1}, one[] = {1, 1};
    const lsi_recipe recipe = {.optimizer = "sgd",
                               .flags = {.decay_order = "first"},
                               .lr = 0.5,
                               .schedule = "constant",
                               .clip_norm = h->clip_norm};
    ls_ddp_options options = LS_DDP_OPTIONS_INIT;
    options.strategy = h->strategy;
    *j = (job){0};
    CHECK_OK(ls_params_new(&j->params));
    CHECK_OK(ls_params_add(j->params, "w", 2, shape,
                           (ls_init){LS_INIT_CONSTANT, 3, 0}, &j->weight));
    CHECK_OK(ls_params_allocate(j->params, group, 0));
    CHECK_OK(ls_ddp_new(&j->ddp, group, j->params, &options));
    lsi_ddp_defer_scale(j->ddp);
    CHECK_OK(lsi_stepper_init(&j->stepper, j->params, &recipe, 10));
    CHECK_OK(lsi_stepper_scale_losses(&j->stepper, j->params, 1));
    CHECK_OK(ls_tape_new(&j->tape));
    CHECK_OK(ls_tape_set_autocast(j->tape, LS_F16));
    CHECK_OK(ls_tensor_new(&j->x, LS_F32, 2, one));
    CHECK_OK(ls_tensor_fill(j->x, 1.0));
}

static void close_job(job *j)
{
    ls_tensor_free(&j->x);
    ls_tape_free(&j->tape);
    lsi_stepper_release(&j->stepper);
    ls_ddp_free(&j->ddp);
    ls_params_free(&j->params);
}

/* loss = factor * sum(w x): in f16 the gradient of w x is factor * scale. */
static void micro_step(job *j, double factor, bool sync)
{
    ls_tensor *y = ls_linear(j->tape, j->x, j->weight, NULL);
    ls_tensor *loss = ls_scale(j->tape, ls_sum(j->tape, y), factor);
    CHECK_OK(sync ? ls_ddp_backward(j->ddp, j->tape, loss, 1.0)
                  : ls_ddp_accumulate(j->ddp, j->tape, loss, 1.0));
    ls_tape_reset(j->tape);
}

static void step(job *j, double factor)
{
    ls_params_zero_grad(j->params);
    CHECK_OK(
        ls_ddp_set_loss_scale(j->ddp, lsi_stepper_loss_scale(&j->stepper)));
    micro_step(j, factor, false);
    CHECK(ls_ddp_set_loss_scale(j->ddp, 1.0) == LS_ERR_STATE);
    micro_step(j, factor, true);
    CHECK_OK(lsi_stepper_step(&j->stepper, lsi_ddp_grad_scale(j->ddp)));
}

static bool all_close(const job *j, double value)
{
    const float *const w = tensor_data(j->weight);
    for (int i = 0; i < N; i++) {
        if (!(fabs(w[i] - value) <= 8 * 0x1p-23))
            return false;
    }
    return true;
}

static bool all_are_3(const job *j)
{
    const float *const w = tensor_data(j->weight);
    for (int i = 0; i < N; i++) {
        if (w[i] != 3.0F)
            return false;
    }
    return true;
}

/*
 * The factor is 4 on the last rank and 1/4 on others. The limit of f16, 65504,
 * is exceeded by 4 times 65536, 32768 and 16384, and not by 4 times 8192.
 */
static void overflow_on_one_rank(ls_group *group, void *argument)
{
    const how *const h = argument;
    const int ranks = ls_group_size(group);
    const double factor = ls_group_rank(group) == ranks - 1 ? 4.0 : 0.25;
    const double mean = (4.0 + 0.25 * (ranks - 1)) / ranks;
    const double norm = mean * sqrt(N);
    const double clipped =
        h->clip_norm > 0 ? h->clip_norm / (norm + 1e-6) : 1.0;
    job j;
    open_job(&j, group, h);
    for (int skipped = 1; skipped <= 3; skipped++) {
        step(&j, factor);
        CHECK(j.stepper.steps == skipped && all_are_3(&j));
        CHECK(!isfinite(j.stepper.norm));
        CHECK(j.stepper.loss_scale.skipped == skipped);
        CHECK(j.stepper.loss_scale.scale == ldexp(65536, -skipped));
    }
    step(&j, factor);
    CHECK(j.stepper.loss_scale.skipped == 3 && j.stepper.steps == 4);
    CHECK(j.stepper.loss_scale.scale == 8192);
    CHECK(j.stepper.loss_scale.good_steps == 1);
    CHECK(all_close(&j, 3.0 - 0.5 * mean * clipped));
    CHECK(fabs(j.stepper.norm - norm) <= norm * 4 * 0x1p-23);
    close_job(&j);
}

static void all_ranks_skip_together(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 3, 5, 8};
    size_t n;
    const lsi_strategy *const all = lsi_strategies(&n);
    for (size_t i = 0; i < n * TEST_COUNT(sizes); i++) {
        how h = {all[i % n].id, i % 2 == 0 ? 0.5 : 0.0};
        run_threads(sizes[i / n], overflow_on_one_rank, &h);
    }
}

static void the_scale_grows(ls_group *group, void *argument)
{
    job j;
    open_job(&j, group, argument);
    j.stepper.loss_scale.scale = 1024;
    j.stepper.loss_scale.interval = 2;
    for (int s = 1; s <= 7; s++) {
        step(&j, 0.25);
        CHECK(j.stepper.loss_scale.scale == ldexp(1024, s / 2));
        CHECK(all_close(&j, 3.0 - 0.125 * s));
    }
    CHECK(j.stepper.loss_scale.skipped == 0);
    close_job(&j);
}

static void growth_changes_no_step(void **state)
{
    (void)state;
    how h = {LS_DDP_FLAT, 0};
    run_threads(2, the_scale_grows, &h);
}

/* A fault that a smaller scale does not cure ends the run, on all ranks. */
static void hopeless(ls_group *group, void *argument)
{
    job j;
    open_job(&j, group, argument);
    j.stepper.loss_scale.scale = 0x1p-24;
    ls_params_zero_grad(j.params);
    micro_step(&j, ls_group_rank(group) == 0 ? INFINITY : 1, true);
    CHECK(lsi_stepper_step(&j.stepper, lsi_ddp_grad_scale(j.ddp)) ==
          LS_ERR_ARGUMENT);
    CHECK(all_are_3(&j));
    CHECK(ls_ddp_set_loss_scale(j.ddp, 0) == LS_ERR_ARGUMENT);
    CHECK(ls_ddp_set_loss_scale(j.ddp, NAN) == LS_ERR_ARGUMENT);
    close_job(&j);
}

static void some_overflow_is_hopeless(void **state)
{
    (void)state;
    how h = {LS_DDP_ZERO1, 0};
    run_threads(2, hopeless, &h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_moves_by_its_factors),
        cmocka_unit_test(it_has_ends),
        cmocka_unit_test(what_is_no_scale),
        cmocka_unit_test(all_ranks_skip_together),
        cmocka_unit_test(growth_changes_no_step),
        cmocka_unit_test(some_overflow_is_hopeless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
