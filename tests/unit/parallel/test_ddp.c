/*
 * Data parallelism: gradients against means over all samples in double, what
 * is communicated, and what is refused.
 */
#include "testing.h"

#include <math.h>
#include <stdio.h>

#include "lockstep/optim.h"
#include "model/parallel/ddp.h"
#include "unit/comm/ranks.h"

enum { IN = 3, OUT = 2, MICRO_STEPS = 3, MAX_RANKS = 8 };

static const ls_ddp_strategy strategies[] = {LS_DDP_NAIVE, LS_DDP_FLAT,
                                             LS_DDP_OVERLAP, LS_DDP_BUCKETED};

static ls_ddp *wrap(ls_group *group, ls_params *params,
                    ls_ddp_strategy strategy)
{
    ls_ddp *ddp = NULL;
    ls_ddp_options options = LS_DDP_OPTIONS_INIT;
    options.strategy = strategy;
    CHECK_OK(ls_ddp_new(&ddp, group, params, &options));
    return ddp;
}

/* Collectives of a step; the model has two trained parameters. */
static uint64_t collectives_of(ls_ddp_strategy strategy)
{
    return strategy == LS_DDP_FLAT || strategy == LS_DDP_BUCKETED ? 1 : 2;
}

/* y = x w^T + b, and a parameter that stays as it is. */
typedef struct model {
    ls_params *params;
    ls_tensor *w, *b, *frozen, *buffer;
    ls_tape *tape;
} model;

static model make(ls_group *group, uint64_t seed)
{
    model m = {0};
    const ls_init uniform = {LS_INIT_UNIFORM, -1, 1};
    CHECK_OK(ls_params_new(&m.params));
    CHECK_OK(
        ls_params_add(m.params, "w", 2, (int64_t[]){OUT, IN}, uniform, &m.w));
    CHECK_OK(ls_params_add(m.params, "frozen", 1, (int64_t[]){2}, uniform,
                           &m.frozen));
    CHECK_OK(ls_params_set_trainable(m.params, m.frozen, false));
    CHECK_OK(ls_params_add(m.params, "b", 1, (int64_t[]){OUT}, uniform, &m.b));
    CHECK_OK(ls_params_add_buffer(m.params, "buffer", 1, (int64_t[]){3},
                                  uniform, &m.buffer));
    CHECK_OK(ls_params_allocate(m.params, group, seed));
    CHECK_OK(ls_tape_new(&m.tape));
    return m;
}

static void destroy(model *m)
{
    ls_tape_free(&m->tape);
    ls_params_free(&m->params);
}

/* Samples of a rank in a micro-step, and their numbers. */
static int rows_of(int rank, int step)
{
    return (rank * 2 + step * 3) % 4;
}

static float x_of(int rank, int step, int row, int i)
{
    return (float)((rank * 5 + step * 3 + row * 7 + i * 11) % 13) * 0.25F -
           1.5F;
}

static float target_of(int rank, int step, int row, int o)
{
    return (float)((rank * 3 + step * 7 + row * 5 + o) % 9) * 0.5F - 2;
}

/* loss = mean over rows of sum over outputs of (y - target)^2 / 2 */
static ls_tensor *loss_of(const model *m, int rank, int step, ls_tensor **keep)
{
    const int rows = rows_of(rank, step);
    CHECK_OK(ls_tensor_new(&keep[0], LS_F32, 2, (int64_t[]){rows, IN}));
    CHECK_OK(ls_tensor_new(&keep[1], LS_F32, 2, (int64_t[]){rows, OUT}));
    float *const x = tensor_data(keep[0]);
    float *const target = tensor_data(keep[1]);
    for (int r = 0; r < rows; r++) {
        for (int i = 0; i < IN; i++)
            x[r * IN + i] = x_of(rank, step, r, i);
        for (int o = 0; o < OUT; o++)
            target[r * OUT + o] = target_of(rank, step, r, o);
    }
    ls_tensor *const y = ls_linear(m->tape, keep[0], m->w, m->b);
    ls_tensor *const d = ls_sub(m->tape, y, keep[1]);
    const double factor = rows > 0 ? 0.5 / rows : 0;
    return ls_scale(m->tape, ls_sum(m->tape, ls_mul(m->tape, d, d)), factor);
}

/* Means over all samples of all ranks: dw (OUT, IN), then db (OUT). */
static int expect(const model *m, int ranks, double out[OUT * IN + OUT])
{
    const float *const w = tensor_data(m->w), *const b = tensor_data(m->b);
    int samples = 0;
    memset(out, 0, sizeof(double) * (OUT * IN + OUT));
    for (int rank = 0; rank < ranks; rank++)
        for (int step = 0; step < MICRO_STEPS; step++)
            for (int row = 0; row < rows_of(rank, step); row++, samples++)
                for (int o = 0; o < OUT; o++) {
                    double d =
                        (double)b[o] - (double)target_of(rank, step, row, o);
                    for (int i = 0; i < IN; i++)
                        d += (double)w[o * IN + i] *
                             (double)x_of(rank, step, row, i);
                    for (int i = 0; i < IN; i++)
                        out[o * IN + i] += d * (double)x_of(rank, step, row, i);
                    out[OUT * IN + o] += d;
                }
    for (int i = 0; i < OUT * IN + OUT; i++)
        out[i] /= samples;
    return samples;
}

static uint64_t collectives(const ls_group *group)
{
    ls_group_counters counters;
    ls_group_get_counters(group, &counters);
    return counters.collectives;
}

static void step_all(const model *m, ls_ddp *ddp, ls_group *group,
                     uint64_t for_sync)
{
    const int rank = ls_group_rank(group);
    ls_params_zero_grad(m->params);
    for (int step = 0; step < MICRO_STEPS; step++) {
        ls_tensor *keep[2];
        const bool sync = step + 1 == MICRO_STEPS;
        const int rows = rows_of(rank, step);
        const uint64_t before = collectives(group);
        ls_tensor *const loss = loss_of(m, rank, step, keep);
        /* A rank without samples may do without a loss. */
        CHECK_OK(
            sync ? ls_ddp_backward(ddp, m->tape, rows > 0 ? loss : NULL, rows)
                 : ls_ddp_accumulate(ddp, m->tape, rows > 0 ? loss : NULL,
                                     rows));
        CHECK(collectives(group) - before == (sync ? for_sync : 0));
        ls_tape_reset(m->tape);
        ls_tensor_free(&keep[0]);
        ls_tensor_free(&keep[1]);
    }
}

static void check_gradients(const model *m, int ranks, double scale)
{
    double expected[OUT * IN + OUT];
    const int samples = expect(m, ranks, expected);
    const float *const dw = tensor_data(ls_grad(m->w));
    const float *const db = tensor_data(ls_grad(m->b));
    /* Terms of up to 32 are summed over samples, then ranks. */
    const double bound = 32 * (samples + ranks + 4) * 0x1p-24;
    for (int i = 0; i < OUT * IN; i++)
        CHECK(fabs((double)dw[i] * scale - expected[i]) <= bound);
    for (int o = 0; o < OUT; o++)
        CHECK(fabs((double)db[o] * scale - expected[OUT * IN + o]) <= bound);
}

/* ---- gradients ---------------------------------------------------------- */

typedef struct plan {
    ls_ddp_strategy strategy;
    bool deferred;
    float gradients[MAX_RANKS][OUT * IN];
} plan;

static void play_gradients(ls_group *group, void *opaque)
{
    plan *const p = opaque;
    const int rank = ls_group_rank(group), size = ls_group_size(group);
    const uint64_t for_sync = collectives_of(p->strategy);
    /* Seeds differ, so that parameters have to come from rank 0. */
    model m = make(group, 100 + (uint64_t)rank);
    ls_ddp *ddp = wrap(group, m.params, p->strategy);
    if (p->deferred)
        lsi_ddp_defer_scale(ddp);
    for (int repeat = 0; repeat < 2; repeat++) {
        step_all(&m, ddp, group, for_sync);
        check_gradients(&m, size, lsi_ddp_grad_scale(ddp));
    }
    CHECK(p->deferred == (lsi_ddp_grad_scale(ddp) != 1.0));
    memcpy(p->gradients[rank], tensor_data(ls_grad(m.w)),
           sizeof(p->gradients[rank]));
    ls_ddp_free(&ddp);
    CHECK(ddp == NULL);
    destroy(&m);
}

static void test_gradients_are_means_over_samples(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 3, 5, 8};
    for (size_t s = 0; s < TEST_COUNT(strategies); s++)
        for (size_t i = 0; i < TEST_COUNT(sizes); i++)
            for (int deferred = 0; deferred < 2; deferred++) {
                /* One rank has 7 samples, none of which weigh 1 together. */
                plan p = {strategies[s], deferred, {{0}}};
                run_threads(sizes[i], play_gradients, &p);
                for (int r = 1; r < sizes[i]; r++)
                    assert_memory_equal(p.gradients[r], p.gradients[0],
                                        sizeof(p.gradients[0]));
            }
}

static void test_processes(void **state)
{
    (void)state;
    for (size_t s = 0; s < TEST_COUNT(strategies); s++) {
        plan p = {strategies[s], false, {{0}}};
        run_processes(2, play_gradients, &p);
    }
}

/* ---- the start ---------------------------------------------------------- */

static void play_broadcast(ls_group *group, void *unused)
{
    (void)unused;
    model m = make(group, (uint64_t)ls_group_rank(group));
    model reference = make(NULL, 0);
    ls_ddp *ddp = wrap(group, m.params, LS_DDP_FLAT);
    for (size_t i = 0; i < ls_params_count(m.params); i++) {
        const ls_tensor *const t = ls_params_get(m.params, i);
        CHECK(memcmp(tensor_data(t),
                     tensor_data(ls_params_get(reference.params, i)),
                     (size_t)ls_tensor_count(t) * sizeof(float)) == 0);
    }
    CHECK(memcmp(tensor_data(m.buffer), tensor_data(reference.buffer),
                 3 * sizeof(float)) == 0);
    ls_ddp_free(&ddp);
    destroy(&reference);
    destroy(&m);
}

static void test_rank_0_is_copied(void **state)
{
    (void)state;
    run_threads(3, play_broadcast, NULL);
}

/* ---- no samples --------------------------------------------------------- */

static void play_nothing(ls_group *group, void *strategy)
{
    model m = make(group, 1);
    ls_ddp *ddp = wrap(group, m.params, *(ls_ddp_strategy *)strategy);
    ls_params_zero_grad(m.params);
    CHECK_OK(ls_ddp_backward(ddp, m.tape, NULL, 0));
    const float *const dw = tensor_data(ls_grad(m.w));
    for (int i = 0; i < OUT * IN; i++)
        CHECK(dw[i] == 0);
    CHECK(lsi_ddp_grad_scale(ddp) == 1.0);
    ls_ddp_free(&ddp);
    destroy(&m);
}

static void test_names_of_strategies(void **state)
{
    (void)state;
    ls_ddp_strategy found = LS_DDP_FLAT;
    for (int i = 1; i <= LS_DDP_STRATEGY_COUNT; i++) {
        const char *name = ls_ddp_strategy_name((ls_ddp_strategy)i);
        assert_ok(ls_ddp_strategy_parse(name, &found));
        assert_int_equal(found, i);
    }
    assert_string_equal(ls_ddp_strategy_name(LS_DDP_ZERO1), "zero1");
    assert_string_equal(ls_ddp_strategy_name(LS_DDP_DEFAULT), "default");
    assert_string_equal(ls_ddp_strategy_name(LS_DDP_STRATEGY_COUNT + 1),
                        "unknown");
    assert_string_equal(ls_ddp_strategy_name((ls_ddp_strategy)-1), "unknown");
    assert_error(ls_ddp_strategy_parse("flt", &found), LS_ERR_ARGUMENT,
                 "'flt'; choose one of: naive, flat, overlap, bucketed");
}

static void test_no_sample_anywhere(void **state)
{
    (void)state;
    for (size_t s = 0; s < TEST_COUNT(strategies); s++) {
        ls_ddp_strategy strategy = strategies[s];
        run_threads(3, play_nothing, &strategy);
    }
}

/* ---- strategies give the same ------------------------------------------- */

typedef struct trained {
    ls_ddp_strategy strategy;
    float w[OUT * IN];
} trained;

static void play_training(ls_group *group, void *opaque)
{
    trained *const t = opaque;
    model m = make(group, 7);
    ls_optimizer *optimizer = NULL;
    ls_ddp *ddp = wrap(group, m.params, t->strategy);
    CHECK_OK(ls_optimizer_new(
        &optimizer, m.params,
        &(ls_optimizer_spec){
            .sgd = &(ls_sgd_options){.lr = 0.1, .momentum = 0.5}}));
    for (int step = 0; step < 5; step++) {
        step_all(&m, ddp, group, collectives_of(t->strategy));
        CHECK_OK(ls_optimizer_step(optimizer, 1.0));
    }
    if (ls_group_rank(group) == 0)
        memcpy(t->w, tensor_data(m.w), sizeof(t->w));
    ls_optimizer_free(&optimizer);
    ls_ddp_free(&ddp);
    destroy(&m);
}

static void test_strategies_agree_bit_for_bit(void **state)
{
    (void)state;
    trained first = {.strategy = strategies[0]};
    run_threads(3, play_training, &first);
    for (size_t s = 1; s < TEST_COUNT(strategies); s++) {
        trained other = {.strategy = strategies[s]};
        run_threads(3, play_training, &other);
        assert_memory_equal(other.w, first.w, sizeof(first.w));
    }
}

/* ---- what is refused ---------------------------------------------------- */

static void test_bad_arguments(void **state)
{
    (void)state;
    ls_group *group;
    ls_ddp *ddp = NULL;
    ls_params *empty;
    ls_ddp_options options = LS_DDP_OPTIONS_INIT;
    assert_ok(ls_group_open_threads(&group, 1));
    assert_ok(ls_params_new(&empty));
    assert_error(ls_ddp_new(&ddp, group, empty, &options), LS_ERR_STATE,
                 "ls_params_allocate");
    ls_params_free(&empty);
    model m = make(group, 1);
    assert_error(ls_ddp_new(&ddp, NULL, m.params, &options), LS_ERR_ARGUMENT,
                 "group");
    options.strategy = LS_DDP_STRATEGY_COUNT + 1;
    assert_error(ls_ddp_new(&ddp, group, m.params, &options), LS_ERR_ARGUMENT,
                 "9 is not an ls_ddp_strategy");
    options.strategy = LS_DDP_FLAT;
    options.bucket_bytes = 1000000;
    assert_error(
        ls_ddp_new(&ddp, group, m.params, &options), LS_ERR_ARGUMENT,
        "'flat' does not use buckets, but the bucket size is 1000000 bytes: "
        "leave the bucket size out, or choose a strategy with "
        "buckets: bucketed, zero1, shared, fsdp");
    assert_null(ddp);
    assert_ok(ls_ddp_new(&ddp, group, m.params, NULL));
    ls_ddp *second = NULL;
    assert_error(ls_ddp_new(&second, group, m.params, NULL), LS_ERR_STATE,
                 "another ls_ddp");
    assert_null(second);
    assert_error(ls_ddp_backward(ddp, m.tape, NULL, 2), LS_ERR_ARGUMENT,
                 "loss is NULL");
    assert_error(ls_ddp_backward(ddp, m.tape, NULL, -1), LS_ERR_ARGUMENT,
                 "weight is -1");
    assert_error(ls_ddp_backward(ddp, m.tape, NULL, NAN), LS_ERR_ARGUMENT,
                 "weight");
    ls_tape_fail(m.tape, LS_ERR_SHAPE, "shapes %d", 1);
    assert_error(ls_ddp_backward(ddp, m.tape, NULL, 0), LS_ERR_SHAPE, "");
    ls_ddp_free(&ddp);
    ls_ddp_free(&ddp);
    destroy(&m);
    ls_group_close(&group);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_processes),
        cmocka_unit_test(test_gradients_are_means_over_samples),
        cmocka_unit_test(test_rank_0_is_copied),
        cmocka_unit_test(test_names_of_strategies),
        cmocka_unit_test(test_no_sample_anywhere),
        cmocka_unit_test(test_strategies_agree_bit_for_bit),
        cmocka_unit_test(test_bad_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
