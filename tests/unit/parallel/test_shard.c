/*
 * Sharing of weights and state: who owns what, what it takes of memory, and
 * what is refused. test_strategies.c checks the weights.
 */
#include "testing.h"

#include <math.h>
#include <stdio.h>

#include "array/compute/threads.h"
#include "lockstep/optim.h"
#include "lockstep/parallel.h"
#include "lockstep/profile.h"
#include "model/parallel/grad_range.h"
#include "unit/comm/ranks.h"
#include "unit/parallel/memory_use.h"

/* ---- who owns what ------------------------------------------------------- */

static void test_equal_shards(void **state)
{
    (void)state;
    static const size_t counts[] = {0, 1, 16, 1023, 1024, 1025, 5000, 123456};
    for (size_t c = 0; c < TEST_COUNT(counts); c++)
        for (int size = 1; size <= 9; size++) {
            const size_t shard = lsi_shard_size(counts[c], size);
            size_t at = 0;
            assert_int_equal(shard % LSI_SHARD_UNIT, 0);
            assert_true(shard * (size_t)size <
                        counts[c] + (size_t)size * LSI_SHARD_UNIT);
            for (int r = 0; r < size; r++) {
                const lsi_range own = lsi_shard_of(counts[c], shard, r);
                assert_int_equal(own.begin, at);
                assert_true(lsi_range_size(own) <= shard);
                at = own.end;
            }
            assert_int_equal(at, counts[c]);
        }
}

static void test_whole_spans(void **state)
{
    (void)state;
    static float memory[1];
    unsigned seed = 5;
    for (int round = 0; round < 300; round++) {
        lsi_grad_range spans[12];
        size_t total = 0, most = 0, at = 0;
        for (size_t i = 0; i < 12; i++) {
            seed = seed * 1664525U + 1013904223U;
            spans[i] = (lsi_grad_range){memory, seed >> 20, seed >> 20};
            total += spans[i].count;
            most = spans[i].count > most ? spans[i].count : most;
        }
        const int size = 1 + round % 8;
        for (int r = 0; r < size; r++) {
            const lsi_range own = lsi_shard_spans(spans, 12, size, r);
            size_t floats = 0;
            assert_int_equal(own.begin, at);
            for (size_t i = own.begin; i < own.end; i++)
                floats += spans[i].count;
            assert_true(floats <= total / (size_t)size + most + 1);
            at = own.end;
        }
        assert_int_equal(at, 12);
    }
}

/* ---- memory -------------------------------------------------------------- */

enum { LARGE = 2 << 20, RANKS = 2 };

typedef struct usage {
    double state, parameters, node; /* bytes; node: over all ranks */
} usage;

static usage measure(ls_group *group, ls_ddp_strategy strategy)
{
    ls_params *params;
    ls_tensor *w, *v;
    ls_tape *tape;
    ls_ddp *ddp = NULL;
    ls_optimizer *sgd = NULL;
    ls_memory_stats stats;
    usage u;
    ls_ddp_options options = LS_DDP_OPTIONS_INIT;
    options.strategy = strategy;
    CHECK_OK(ls_params_new(&params));
    const ls_init one = {LS_INIT_CONSTANT, 1, 0};
    CHECK_OK(ls_params_add(params, "w", 1, (int64_t[]){LARGE}, one, &w));
    CHECK_OK(ls_params_add(params, "v", 1, (int64_t[]){LARGE / 2}, one, &v));
    CHECK_OK(ls_params_allocate(params, group, 1));
    CHECK_OK(ls_tape_new(&tape));
    CHECK_OK(ls_ddp_new(&ddp, group, params, &options));
    CHECK_OK(ls_optimizer_new(
        &sgd, params,
        &(ls_optimizer_spec){
            .sgd = &(ls_sgd_options){.lr = 0.5, .momentum = 0.5}}));
    ls_params_zero_grad(params);
    CHECK_OK(ls_ddp_backward(
        ddp, tape, ls_add(tape, ls_sum(tape, w), ls_sum(tape, v)), 1));
    CHECK_OK(ls_optimizer_step(sgd, 1));
    CHECK(((const float *)tensor_data(w))[LARGE - 1] == 0.5F);
    ls_tape_free(&tape);
    ls_memory_of(LS_MEMORY_STATE, &stats);
    u.state = (double)stats.live_bytes;
    ls_memory_of(LS_MEMORY_PARAMETERS, &stats);
    u.parameters = (double)stats.live_bytes;
    CHECK_OK(ls_barrier(group));
    u.node = proportional_bytes();
    CHECK_OK(ls_all_reduce(group, &u.node, &u.node, 1, LS_F64, LS_REDUCE_SUM));
    ls_optimizer_free(&sgd);
    ls_ddp_free(&ddp);
    ls_params_free(&params);
    ls_memory_of(LS_MEMORY_PARAMETERS, &stats);
    CHECK(stats.live_bytes == 0);
    return u;
}

static bool near(double got, double expected)
{
    return fabs(got - expected) <= 0.05 * expected;
}

static void play_memory(ls_group *group, void *unused)
{
    (void)unused;
    const double bytes = 1.5 * LARGE * sizeof(float), n = RANKS;
    lsi_threads_set(1);
    const usage flat = measure(group, LS_DDP_FLAT);
    const usage zero1 = measure(group, LS_DDP_ZERO1);
    const usage shared = measure(group, LS_DDP_SHARED);
    CHECK(near(flat.state, bytes) && near(flat.parameters, bytes));
    CHECK(near(zero1.state, bytes / n) && near(zero1.parameters, bytes));
    CHECK(near(shared.state, bytes / n) && near(shared.parameters, bytes / n));
    if (memory_has_shadows)
        return;
    /* The memory of the node: first less state, then less weights. */
    CHECK(fabs(flat.node - zero1.node - (n - 1) * bytes) <= 0.1 * bytes);
    CHECK(fabs(zero1.node - shared.node - (n - 1) * bytes) <= 0.1 * bytes);
}

static void test_memory(void **state)
{
    (void)state;
    run_processes(RANKS, play_memory, NULL);
}

/* ---- what is refused ----------------------------------------------------- */

static ls_params *make(ls_group *group)
{
    ls_params *params;
    ls_tensor *w;
    CHECK_OK(ls_params_new(&params));
    CHECK_OK(ls_params_add(params, "w", 1, (int64_t[]){5000},
                           (ls_init){LS_INIT_CONSTANT, 1, 0}, &w));
    CHECK_OK(ls_params_allocate(params, group, 1));
    return params;
}

/* Whoever was left a part of the work has all of it afterwards. */
static void play_afterwards(ls_group *group, void *unused)
{
    (void)unused;
    ls_params *params = make(group);
    ls_optimizer *part = NULL, *whole = NULL;
    ls_ddp *ddp = NULL;
    ls_ddp_options options = LS_DDP_OPTIONS_INIT;
    options.strategy = LS_DDP_ZERO1;
    CHECK_OK(ls_ddp_new(&ddp, group, params, &options));
    CHECK_OK(ls_optimizer_new(
        &part, params,
        &(ls_optimizer_spec){.sgd = &(ls_sgd_options){.lr = 1}}));
    ls_ddp_free(&ddp);
    CHECK(ls_optimizer_step(part, 1) == LS_ERR_STATE);
    CHECK(strstr(ls_last_error(), "ls_ddp_free") != NULL);
    CHECK_OK(ls_optimizer_new(
        &whole, params,
        &(ls_optimizer_spec){.sgd = &(ls_sgd_options){.lr = 1}}));
    float *const grad = tensor_data(ls_grad(ls_params_get(params, 0)));
    const float *const w = tensor_data(ls_params_get(params, 0));
    ls_params_zero_grad(params);
    ls_params_finish_grad(params);
    grad[0] = grad[4999] = 0.5F;
    CHECK_OK(ls_optimizer_step(whole, 1));
    CHECK(w[0] == 0.5F && w[1] == 1 && w[4999] == 0.5F);
    ls_optimizer_free(&part);
    ls_optimizer_free(&whole);
    ls_params_free(&params);
}

static void test_afterwards(void **state)
{
    (void)state;
    for (int size = 1; size <= 3; size++)
        run_threads(size, play_afterwards, NULL);
}

static void play_refusals(ls_group *group, void *unused)
{
    (void)unused;
    ls_params *params = make(group);
    ls_optimizer *early = NULL;
    ls_ddp *ddp = NULL;
    ls_ddp_options options = LS_DDP_OPTIONS_INIT;
    CHECK_OK(ls_optimizer_new(
        &early, params,
        &(ls_optimizer_spec){.sgd = &(ls_sgd_options){.lr = 1}}));
    options.strategy = LS_DDP_SHARED;
    CHECK_OK(ls_ddp_new(&ddp, group, params, &options));
    CHECK(ls_optimizer_step(early, 1) == LS_ERR_STATE);
    CHECK(strstr(ls_last_error(), "created before ls_ddp_new") != NULL);
    ls_optimizer_free(&early);
    ls_ddp_free(&ddp);
    /* One copy cannot be stepped by everybody, but shared once more. */
    options.strategy = LS_DDP_FLAT;
    CHECK(ls_ddp_new(&ddp, group, params, &options) == LS_ERR_STATE);
    CHECK(strstr(ls_last_error(), "node-shared") != NULL);
    CHECK_OK(ls_optimizer_new(
        &early, params,
        &(ls_optimizer_spec){.sgd = &(ls_sgd_options){.lr = 1}}));
    CHECK(ls_optimizer_step(early, 1) == LS_ERR_STATE);
    CHECK(strstr(ls_last_error(), "one copy") != NULL);
    ls_optimizer_free(&early);
    options.strategy = LS_DDP_SHARED;
    CHECK_OK(ls_ddp_new(&ddp, group, params, &options));
    ls_ddp_free(&ddp);
    ls_params_free(&params);
    float x[1] = {0};
    CHECK(ls_ddp_new_ranges(&ddp, group, &(ls_ddp_range){x, 1}, 1, &options) ==
          LS_ERR_ARGUMENT);
    CHECK(strstr(ls_last_error(), "needs an ls_params") != NULL);
}

static void test_refusals(void **state)
{
    (void)state;
    run_threads(3, play_refusals, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory), /* processes first: it forks */
        cmocka_unit_test(test_equal_shards), cmocka_unit_test(test_whole_spans),
        cmocka_unit_test(test_afterwards),   cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
