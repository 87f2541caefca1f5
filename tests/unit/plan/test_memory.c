/*
 * Planned memory against what a step of the same model really takes, as the
 * library counts it: within 5%, by kind and in all.
 */
#include <math.h>

#include "../comm/ranks.h"
#include "base/memory.h"
#include "lockstep/profile.h"
#include "plan/memory.h"
#include "testing.h"
#include "trained.h"

static trained_setup usual(void)
{
    trained_setup s = {.batch = 2, .dtype = LS_F32, .how = LS_DDP_OPTIONS_INIT};
    CHECK_OK(ls_transformer_size("tiny", &s.config));
    s.config.layers = 2;
    s.config.d_model = 128;
    s.config.d_ff = 512;
    s.config.vocabulary = 1000;
    s.config.context = 64;
    return s;
}

/* ---- compared ------------------------------------------------------------ */

static void near(const char *kind, double planned, double bytes)
{
    if (fabs(planned - bytes) <= 0.05 * bytes)
        return;
    fprintf(stderr, "%s: planned %.0f bytes, there were %.0f\n", kind, planned,
            bytes);
    abort();
}

static double peak(ls_memory_tag tag)
{
    ls_memory_stats stats;
    ls_memory_of(tag, &stats);
    return (double)stats.peak_bytes;
}

/* Of what fsdp drops one to two buckets are there, as ranks wait or do not. */
static void check_gradients(const lsi_plan_run *run, double planned)
{
    const double slices = fmax((double)run->slices / (double)run->ranks, 1);
    const double kept =
        4.0 * (double)run->model->parameters * (slices - 1 + 0.5);
    const double had = peak(LS_MEMORY_GRADIENTS);
    if (run->strategy->share != LSI_SHARE_ALL)
        near("gradients", planned, had);
    else
        CHECK(had >= kept && had <= kept + 2.1e6 && planned > kept &&
              planned <= kept + 2e6);
}

/* A processor without half types widens the factors of a product. */
static double widened(const lsi_plan_run *run)
{
    int64_t most = run->batch * run->context * run->model->d_ff;
    for (size_t i = 0; i < run->model->n_tensors; i++)
        if (run->model->tensors[i] > most)
            most = run->model->tensors[i];
    return run->half ? 2.0 * sizeof(float) * (double)most : 0;
}

/*
 * Buffers of products are as large as the processor's caches let them be, so
 * what there is of them says nothing of the model.
 */
static void check_total(const lsi_plan_run *run, const lsi_plan_memory *m)
{
    ls_memory_stats total;
    ls_memory_total(&total);
    double had = (double)total.peak_bytes, planned = m->total - m->other;
    const double other = peak(LS_MEMORY_WORKSPACE) + peak(LS_MEMORY_COMM) +
                         peak(LS_MEMORY_OTHER);
    CHECK(other < 4e6);
    had -= other;
    if (had > planned)
        planned = fmin(had, planned + widened(run));
    near("all", planned, had);
}

static void compare(ls_group *group, const trained_setup *s)
{
    lsi_plan_model model;
    CHECK_OK(lsi_plan_model_open(&model, &s->config));
    const lsi_plan_run run = trained_plan(s, group, &model);
    const lsi_plan_memory m = lsi_plan_memory_of(&run);
    near("parameters", m.parameters, peak(LS_MEMORY_PARAMETERS));
    near("state", m.state, peak(LS_MEMORY_STATE));
    near("activations", m.activations, peak(LS_MEMORY_ACTIVATIONS));
    check_gradients(&run, m.gradients);
    if (run.strategy->share != LSI_SHARE_ALL)
        check_total(&run, &m);
    lsi_plan_model_close(&model);
}

/*
 * Weights while they are made and divided take no more than a step: gradients
 * have no pages yet.
 */
static void check_start(ls_group *group, const trained_setup *s)
{
    lsi_plan_model model;
    CHECK_OK(lsi_plan_model_open(&model, &s->config));
    const lsi_plan_run run = trained_plan(s, group, &model);
    const lsi_plan_memory m = lsi_plan_memory_of(&run);
    CHECK(peak(LS_MEMORY_PARAMETERS) <= 1.01 * (m.parameters + m.gradients));
    lsi_plan_model_close(&model);
}

static void check(ls_group *group, void *argument)
{
    const trained_setup *const s = argument;
    trained t = {0};
    trained_open(&t, group, s);
    check_start(group, s);
    ls_memory_reset_peak();
    trained_step(&t);
    compare(group, s);
    trained_close(&t);
}

/* ---- tests --------------------------------------------------------------- */

static void models(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        trained_setup s = usual();
        s.config.kind = i & 1 ? LS_TRANSFORMER_GPT2 : LS_TRANSFORMER_ROPE;
        s.recompute = (i & 2) != 0;
        s.dtype = i & 4 ? LS_BF16 : LS_F32;
        run_processes(1, check, &s);
    }
}

static void strategies(void **state)
{
    (void)state;
    static const ls_ddp_strategy some[] = {
        LS_DDP_FLAT, LS_DDP_OWNERS, LS_DDP_ZERO1, LS_DDP_SHARED, LS_DDP_FSDP};
    for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
        trained_setup s = usual();
        const lsi_strategy *found;
        s.how.strategy = some[i];
        s.batch = 1;
        assert_ok(lsi_strategy_find(s.how.strategy, &found));
        if (found->buckets == LSI_BUCKETS_LIMIT)
            s.how.bucket_bytes = 1000000;
        run_processes(2, check, &s);
        s.slices = 3;
        run_processes(2, check, &s);
    }
}

static lsi_plan_run run_with(lsi_plan_model *model, int64_t ranks)
{
    lsi_plan_run run = {.model = model,
                        .batch = 1,
                        .context = 1,
                        .ranks = ranks,
                        .nodes = 1,
                        .bucket_bytes = UINT64_MAX};
    assert_ok(lsi_strategy_find(LS_DDP_ZERO1, &run.strategy));
    return run;
}

/* As for the 12.8 billion parameters of "10B" on 4096 ranks, and beyond. */
static void large(void **state)
{
    (void)state;
    int64_t tensors[] = {INT64_C(1) << 61};
    lsi_plan_model model = {.layers = 1,
                            .d_model = 1,
                            .d_ff = 1,
                            .vocabulary = 1,
                            .parameters = tensors[0],
                            .tensors = tensors,
                            .n_tensors = 1};
    lsi_plan_run run = run_with(&model, 4096);
    const lsi_plan_memory m = lsi_plan_memory_of(&run);
    assert_true(m.gradients == 0x1p63);
    assert_true(m.state == 0x1p64 / 4096);
    ls_transformer_config config = LS_TRANSFORMER_CONFIG_INIT;
    assert_ok(ls_transformer_size("10B", &config));
    assert_ok(lsi_plan_model_open(&model, &config));
    run = run_with(&model, 4096);
    assert_true(lsi_plan_memory_of(&run).state == 8 * 12832823808.0 / 4096);
    lsi_plan_model_close(&model);
}

static void refused(void **state)
{
    (void)state;
    lsi_plan_model model = {.n_tensors = 0};
    lsi_plan_run run = run_with(&model, 4);
    assert_ok(lsi_plan_check(&run));
    run.nodes = 3;
    assert_error(lsi_plan_check(&run), LS_ERR_ARGUMENT,
                 "cannot plan 4 ranks on");
    run.nodes = 0;
    assert_error(lsi_plan_check(&run), LS_ERR_ARGUMENT, "must be above 0");
    run = run_with(&model, 0);
    assert_error(lsi_plan_check(&run), LS_ERR_ARGUMENT, "0 ranks");
    run = run_with(&model, 1);
    run.batch = 0;
    assert_error(lsi_plan_check(&run), LS_ERR_ARGUMENT, "0 sequences");
    ls_transformer_config config = LS_TRANSFORMER_CONFIG_INIT;
    assert_ok(ls_transformer_size("tiny", &config));
    config.layers = 1 << 20;
    assert_error(lsi_plan_model_open(&model, &config), LS_ERR_ARGUMENT,
                 "1048576 layers");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models),
        cmocka_unit_test(strategies),
        cmocka_unit_test(large),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
