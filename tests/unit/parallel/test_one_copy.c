/*
 * Parameters of which the ranks of a node share one copy (strategies shared and
 * fsdp). All ranks see what one writes. Their halves are the rounded values,
 * and under fsdp a rank holds what docs/concepts/parallel.md says.
 * test_strategies.c checks the weights.
 */
#include "testing.h"

#include <math.h>
#include <stdio.h>

#include "array/compute/threads.h"
#include "lockstep/optim.h"
#include "lockstep/parallel.h"
#include "lockstep/profile.h"
#include "model/parallel/strategy.h"
#include "unit/comm/ranks.h"
#include "unit/parallel/memory_use.h"

static ls_ddp *wrap(ls_group *group, ls_params *params,
                    ls_ddp_strategy strategy, double bucket_mb)
{
    ls_ddp *ddp = NULL;
    ls_ddp_options options = LS_DDP_OPTIONS_INIT;
    options.strategy = strategy;
    options.bucket_bytes = lsi_bucket_bytes(bucket_mb);
    CHECK_OK(ls_ddp_new(&ddp, group, params, &options));
    return ddp;
}

/* ---- writing ------------------------------------------------------------- */

enum { LENGTHS = 5 };
static const int64_t lengths[LENGTHS] = {3000, 1, 17, 2048, 999};

static float number(int tensor, int64_t i)
{
    return (float)(tensor * 10000 + i);
}

static void check_numbers(ls_params *params)
{
    for (int t = 0; t < LENGTHS; t++) {
        const float *const x = tensor_data(ls_params_get(params, (size_t)t));
        for (int64_t i = 0; i < lengths[t]; i++)
            CHECK(x[i] == number(t, i));
    }
}

/* With the values of a seed; the group may be NULL. */
static ls_params *five_with_seed(ls_group *group, uint64_t seed)
{
    ls_params *params = NULL;
    CHECK_OK(ls_params_new(&params));
    for (int t = 0; t < LENGTHS; t++) {
        char name[16];
        snprintf(name, sizeof(name), "p%d", t);
        CHECK_OK(ls_params_add(params, name, 1, &lengths[t],
                               (ls_init){LS_INIT_NORMAL, 0, 1}, NULL));
    }
    CHECK_OK(ls_params_allocate(params, group, seed));
    return params;
}

static ls_params *five_parameters(ls_group *group)
{
    return five_with_seed(group, (uint64_t)ls_group_rank(group));
}

static void play_writing(ls_group *group, void *unused)
{
    (void)unused;
    ls_params *params = five_parameters(group);
    ls_ddp *ddp = wrap(group, params, LS_DDP_FSDP, 0.004);
    /* Rank 0's numbers, for all. */
    float *const x = tensor_data(ls_params_get(params, 0));
    float first = x[2999];
    CHECK_OK(ls_broadcast(group, &first, 1, LS_F32, 0));
    CHECK(x[2999] == first && first != 0);
    CHECK_OK(ls_barrier(group));
    for (int t = 0; t < LENGTHS; t++) {
        float *const to = tensor_data(ls_params_get(params, (size_t)t));
        for (int64_t i = 0; i < lengths[t]; i++) {
            if (i % ls_group_size(group) == ls_group_rank(group))
                to[i] = number(t, i);
        }
    }
    ls_params_changed(params);
    CHECK_OK(ls_barrier(group));
    check_numbers(params);
    ls_ddp_free(&ddp);
    check_numbers(params);
    ddp = wrap(group, params, LS_DDP_SHARED, 0.004);
    check_numbers(params);
    ls_ddp_free(&ddp);
    ls_ddp_options flat = LS_DDP_OPTIONS_INIT;
    CHECK(ls_ddp_new(&ddp, group, params, &flat) == LS_ERR_STATE);
    CHECK(strstr(ls_last_error(), "node-shared") != NULL);
    ls_params_free(&params);
}

static void test_writing(void **state)
{
    (void)state;
    run_processes(2, play_writing, NULL);
    for (int size = 1; size <= 5; size += size < 3 ? 1 : 2)
        run_threads(size, play_writing, NULL);
}

/* ---- the start ----------------------------------------------------------- */

/* The rank that looks at its weights before ls_ddp_new, or -1. */
static void play_start(ls_group *group, void *looks)
{
    ls_params *params = five_parameters(group);
    ls_params *first = five_with_seed(NULL, 0);
    if (ls_group_rank(group) == *(const int *)looks)
        ((float *)tensor_data(ls_params_get(params, 3)))[5] = 1;
    ls_ddp *ddp = wrap(group, params, LS_DDP_FSDP, 0.004);
    for (size_t t = 0; t < LENGTHS; t++) {
        float *const values = tensor_data(ls_params_get(first, t));
        if (t == 3 && *(const int *)looks == 0)
            values[5] = 1;
        CHECK(memcmp(values, tensor_data(ls_params_get(params, t)),
                     (size_t)lengths[t] * sizeof(float)) == 0);
    }
    ls_params_free(&first);
    ls_ddp_free(&ddp);
    ls_params_free(&params);
}

static void test_all_begin_with_rank_0s_weights(void **state)
{
    (void)state;
    for (int looks = -1; looks < 2; looks++) {
        run_processes(2, play_start, &looks);
        for (int size = 1; size <= 5; size++)
            run_threads(size, play_start, &looks);
    }
}

/* Nobody looks at the weights, so no process ever has all of them. */
static void play_large(ls_group *group, void *unused)
{
    const int64_t n = 1 << 24; /* 64 MiB */
    ls_params *params = NULL;
    (void)unused;
    CHECK_OK(ls_params_new(&params));
    CHECK_OK(ls_params_add(params, "p", 1, &n, (ls_init){LS_INIT_NORMAL, 0, 1},
                           NULL));
    const double before = peak_bytes(true);
    CHECK_OK(ls_params_allocate(params, group, 1));
    ls_ddp *ddp = wrap(group, params, LS_DDP_FSDP, 0.004);
    const double taken = peak_bytes(false) - before;
    const double own = (double)n * sizeof(float) / ls_group_size(group);
    if (!memory_has_shadows)
        CHECK(taken > 0.9 * own && taken < 1.1 * own + 0x1p22);
    ls_ddp_free(&ddp);
    ls_params_free(&params);
}

static void test_a_rank_computes_its_part_only(void **state)
{
    (void)state;
    run_processes(2, play_large, NULL);
    run_processes(4, play_large, NULL);
}

/* ---- halves -------------------------------------------------------------- */

enum { IN = 70, OUT = 33, ROWS = 3, STEPS = 4 };

typedef struct net {
    ls_params *params;
    ls_tensor *weight, *frozen, *x;
    ls_tape *tape;
    ls_ddp *ddp;
    ls_optimizer *sgd;
} net;

static void make_net(net *n, ls_group *group, ls_ddp_strategy strategy)
{
    const ls_init normal = {LS_INIT_NORMAL, 0, 1};
    *n = (net){.ddp = NULL};
    CHECK_OK(ls_params_new(&n->params));
    CHECK_OK(ls_params_add(n->params, "weight", 2, (int64_t[]){OUT, IN}, normal,
                           &n->weight));
    CHECK_OK(ls_params_add(n->params, "frozen", 2, (int64_t[]){OUT, OUT},
                           normal, &n->frozen));
    CHECK_OK(ls_params_set_trainable(n->params, n->frozen, false));
    CHECK_OK(ls_params_allocate(n->params, group, 7));
    n->ddp = wrap(group, n->params, strategy, 0);
    CHECK_OK(ls_optimizer_new(
        &n->sgd, n->params,
        &(ls_optimizer_spec){
            .sgd = &(ls_sgd_options){.lr = 0.01, .momentum = 0.9}}));
    CHECK_OK(ls_tensor_new(&n->x, LS_F32, 2, (int64_t[]){ROWS, IN}));
    float *const x = tensor_data(n->x);
    for (int i = 0; i < ROWS * IN; i++)
        x[i] = sinf((float)(i + ls_group_rank(group)));
    CHECK_OK(ls_tape_new(&n->tape));
}

static void free_net(net *n)
{
    ls_tape_free(&n->tape);
    ls_tensor_free(&n->x);
    ls_optimizer_free(&n->sgd);
    ls_ddp_free(&n->ddp);
    ls_params_free(&n->params);
}

static ls_tensor *loss_in(net *n, ls_dtype dtype)
{
    CHECK_OK(ls_tape_set_autocast(n->tape, dtype));
    ls_tensor *const y = ls_linear(n->tape, n->x, n->weight, NULL);
    return ls_sum(n->tape, ls_linear(n->tape, y, n->frozen, NULL));
}

static float value_in(net *n, ls_dtype dtype)
{
    const float value = *(const float *)tensor_data(loss_in(n, dtype));
    ls_tape_reset(n->tape);
    return value;
}

static void step_in(net *n, ls_dtype dtype)
{
    ls_params_zero_grad(n->params);
    CHECK_OK(ls_ddp_backward(n->ddp, n->tape, loss_in(n, dtype), 1));
    CHECK_OK(ls_optimizer_step(n->sgd, 1));
    ls_tape_reset(n->tape);
}

/* As a set of which each rank has a copy, with separate halves. */
static void check_same(net *a, net *b)
{
    CHECK(value_in(a, LS_BF16) == value_in(b, LS_BF16));
    CHECK(value_in(a, LS_F16) == value_in(b, LS_F16));
    CHECK(memcmp(tensor_data(a->weight), tensor_data(b->weight),
                 OUT * IN * sizeof(float)) == 0);
}

static void write_weight(ls_group *group, net *n)
{
    float *const w = tensor_data(n->weight);
    CHECK_OK(ls_barrier(group));
    for (int i = 0; i < OUT * IN; i++)
        w[i] = cosf((float)i);
    CHECK_OK(ls_barrier(group));
    ls_params_changed(n->params);
}

static void play_halves(ls_group *group, void *strategy)
{
    net own, shared;
    make_net(&own, group, LS_DDP_FLAT);
    make_net(&shared, group, *(ls_ddp_strategy *)strategy);
    check_same(&own, &shared);
    for (int i = 0; i < STEPS; i++) {
        step_in(&own, i == 2 ? LS_F16 : LS_BF16);
        step_in(&shared, i == 2 ? LS_F16 : LS_BF16);
        if (i != 1)
            check_same(&own, &shared);
    }
    write_weight(group, &own);
    CHECK_OK(ls_barrier(group));
    for (int i = ls_group_rank(group); i < OUT * IN; i += ls_group_size(group))
        ((float *)tensor_data(shared.weight))[i] = cosf((float)i);
    CHECK_OK(ls_barrier(group));
    ls_params_changed(shared.params);
    check_same(&own, &shared);
    step_in(&own, LS_BF16);
    step_in(&shared, LS_BF16);
    check_same(&own, &shared);
    free_net(&own);
    free_net(&shared);
}

static void test_halves(void **state)
{
    (void)state;
    ls_ddp_strategy fsdp = LS_DDP_FSDP, shared = LS_DDP_SHARED;
    run_processes(3, play_halves, &fsdp);
    for (int size = 1; size <= 4; size++) {
        run_threads(size, play_halves, &shared);
        run_threads(size, play_halves, &fsdp);
    }
}

/* ---- memory -------------------------------------------------------------- */

enum { RANKS = 2, TENSORS = 16, FLOATS = 1 << 18 };

/* Bytes of a tensor, and of all. */
static const double UNIT = FLOATS * sizeof(float);
static const double ALL = TENSORS * FLOATS * sizeof(float);

static ls_status look(void *peak, size_t index)
{
    (void)index;
    const double now = proportional_bytes();
    if (now > *(double *)peak)
        *(double *)peak = now;
    return LS_OK;
}

static ls_tensor *loss_of(ls_params *params, ls_tape *tape)
{
    ls_tensor *loss = NULL;
    for (size_t t = 0; t < TENSORS; t++) {
        ls_tensor *const sum = ls_sum(tape, ls_params_get(params, t));
        loss = loss == NULL ? sum : ls_add(tape, loss, sum);
    }
    return loss;
}

static void step(ls_params *params, ls_ddp *ddp, ls_optimizer *sgd)
{
    ls_tape *tape = NULL;
    CHECK_OK(ls_tape_new(&tape));
    ls_params_zero_grad(params);
    CHECK_OK(ls_ddp_backward(ddp, tape, loss_of(params, tape), 1));
    CHECK_OK(ls_optimizer_step(sgd, 1));
    ls_tape_free(&tape);
}

static double bytes_of(ls_memory_tag tag)
{
    ls_memory_stats stats;
    ls_memory_of(tag, &stats);
    return (double)stats.peak_bytes;
}

static bool between(double x, double low, double high)
{
    return x >= low * 0.95 && x <= high * 1.05;
}

static void play_memory(ls_group *group, void *unused)
{
    (void)unused;
    ls_params *params = NULL;
    ls_optimizer *sgd = NULL;
    const int64_t shape = FLOATS;
    lsi_threads_set(1);
    CHECK_OK(ls_barrier(group));
    const double before = proportional_bytes();
    CHECK_OK(ls_params_new(&params));
    for (int t = 0; t < TENSORS; t++) {
        char name[16];
        snprintf(name, sizeof(name), "p%d", t);
        CHECK_OK(ls_params_add(params, name, 1, &shape,
                               (ls_init){LS_INIT_CONSTANT, 1, 0}, NULL));
    }
    CHECK_OK(ls_params_allocate(params, group, 1));
    ls_ddp *ddp = wrap(group, params, LS_DDP_FSDP, 1e-6 * UNIT);
    CHECK_OK(ls_optimizer_new(
        &sgd, params,
        &(ls_optimizer_spec){
            .sgd = &(ls_sgd_options){.lr = 0.5, .momentum = 0.5}}));
    ls_memory_reset_peak();
    double most = 0;
    ls_params_on_grad_ready(params, look, &most);
    step(params, ddp, sgd);
    step(params, ddp, sgd);
    look(&most, 0);
    const double part = ALL / RANKS;
    CHECK(between(bytes_of(LS_MEMORY_STATE), part, part));
    CHECK(between(bytes_of(LS_MEMORY_PARAMETERS), part, part));
    CHECK(between(bytes_of(LS_MEMORY_GRADIENTS), part, part + 2 * UNIT));
    ls_optimizer_free(&sgd);
    ls_ddp_free(&ddp);
    ls_params_free(&params);
    CHECK_OK(ls_barrier(group));
    /* Memory has shadows if it is sanitized. Huge pages are 2 MiB. */
    const double huge = 2 << 20;
    CHECK(memory_has_shadows ||
          most - before <= 3 * part + 2 * UNIT + 2 * huge);
    ls_memory_stats stats;
    ls_memory_of(LS_MEMORY_PARAMETERS, &stats);
    CHECK(stats.live_bytes == 0);
    ls_memory_of(LS_MEMORY_GRADIENTS, &stats);
    CHECK(stats.live_bytes == 0);
}

static void test_memory(void **state)
{
    (void)state;
    run_processes(RANKS, play_memory, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory), /* processes first: it forks */
        cmocka_unit_test(test_a_rank_computes_its_part_only),
        cmocka_unit_test(test_all_begin_with_rank_0s_weights),
        cmocka_unit_test(test_writing),
        cmocka_unit_test(test_halves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
