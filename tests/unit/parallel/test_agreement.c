/*
 * Settings that ranks must agree on, or pass as options: parameters that some
 * do not use, steps without a sync, options that differ. Nobody waits for ever.
 */
#include "testing.h"

#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "lockstep/optim.h"
#include "lockstep/parallel.h"
#include "model/parallel/strategy.h"
#include "unit/comm/ranks.h"

enum { RANKS = 3, N = 4 };

/* loss = sum of the parameters that a rank uses, times 1, 2, 3, ... */
typedef struct model {
    ls_params *params;
    ls_tensor *p[N];
    ls_tape *tape;
    ls_ddp *ddp;
} model;

static ls_ddp_options options_of(ls_ddp_strategy strategy)
{
    ls_ddp_options options = LS_DDP_OPTIONS_INIT;
    options.strategy = strategy;
    return options;
}

static model make(ls_group *group, const ls_ddp_options *options)
{
    static const char *const names[N] = {"first", "second", "third", "fourth"};
    model m = {0};
    CHECK_OK(ls_params_new(&m.params));
    for (int i = 0; i < N; i++)
        CHECK_OK(ls_params_add(m.params, names[i], 1, (int64_t[]){5 + i},
                               (ls_init){LS_INIT_UNIFORM, -1, 1}, &m.p[i]));
    CHECK_OK(ls_params_allocate(m.params, group, 1));
    CHECK_OK(ls_tape_new(&m.tape));
    CHECK_OK(ls_ddp_new(&m.ddp, group, m.params, options));
    return m;
}

static void destroy(model *m)
{
    ls_ddp_free(&m->ddp);
    ls_tape_free(&m->tape);
    ls_params_free(&m->params);
}

static ls_tensor *loss_of(const model *m, unsigned used)
{
    ls_tensor *loss = NULL;
    for (int i = 0; i < N; i++) {
        if (!(used >> i & 1))
            continue;
        ls_tensor *const sum =
            ls_scale(m->tape, ls_sum(m->tape, m->p[i]), i + 1);
        loss = loss == NULL ? sum : ls_add(m->tape, loss, sum);
    }
    return loss;
}

static ls_status backward(const model *m, unsigned used, bool sync)
{
    const ls_status status =
        (sync ? ls_ddp_backward(m->ddp, m->tape, loss_of(m, used), 1)
              : ls_ddp_accumulate(m->ddp, m->tape, loss_of(m, used), 1));
    ls_tape_reset(m->tape);
    return status;
}

static double gradient(const model *m, int i)
{
    return (double)((const float *)tensor_data(ls_grad(m->p[i])))[0];
}

static const ls_ddp_strategy strategies[] = {LS_DDP_NAIVE, LS_DDP_FLAT,
                                             LS_DDP_OVERLAP, LS_DDP_BUCKETED};

/* ---- parameters that are not used ---------------------------------------- */

static void expect_named(ls_group *group, ls_ddp_strategy strategy)
{
    const ls_ddp_options options = options_of(strategy);
    model m = make(group, &options);
    const int rank = ls_group_rank(group);
    /* Rank 0 uses all, rank 1 not the second, rank 2 not the last two. */
    static const unsigned used[RANKS] = {15, 13, 3};
    ls_params_zero_grad(m.params);
    CHECK(backward(&m, used[rank], true) == LS_ERR_STATE);
    CHECK(strstr(ls_last_error(), "rank 1: second; rank 2: ") != NULL);
    CHECK(strstr(ls_last_error(), "third") != NULL);
    CHECK(strstr(ls_last_error(), "fourth") != NULL);
    CHECK(strstr(ls_last_error(), "first") == NULL);
    CHECK(strstr(ls_last_error(), "rank 0") == NULL);
    /* The next step is not the worse for it. */
    ls_params_zero_grad(m.params);
    CHECK_OK(backward(&m, 15, true));
    CHECK(gradient(&m, 2) == 3);
    destroy(&m);
}

static void expect_zeros(ls_group *group, ls_ddp_strategy strategy)
{
    ls_ddp_options options = options_of(strategy);
    options.unused_as_zero = true;
    model m = make(group, &options);
    const int rank = ls_group_rank(group);
    for (int repeat = 0; repeat < 3; repeat++) {
        ls_params_zero_grad(m.params);
        CHECK_OK(backward(&m, 1U << rank | 8, true));
        for (int i = 0; i < 3; i++)
            CHECK(fabs(gradient(&m, i) - (i + 1) / 3.0) < 1e-6);
        CHECK(fabs(gradient(&m, 3) - 4) < 1e-6);
    }
    destroy(&m);
}

static void play_unused(ls_group *group, void *unused)
{
    (void)unused;
    for (size_t s = 0; s < TEST_COUNT(strategies); s++) {
        expect_named(group, strategies[s]);
        expect_zeros(group, strategies[s]);
    }
}

static void test_unused_parameters(void **state)
{
    (void)state;
    run_threads(RANKS, play_unused, NULL);
    run_processes(RANKS, play_unused, NULL);
}

/* More ranks than a message has room for. */
static void play_many(ls_group *group, void *unused)
{
    (void)unused;
    const ls_ddp_options options = options_of(LS_DDP_FLAT);
    model m = make(group, &options);
    ls_params_zero_grad(m.params);
    CHECK(backward(&m, 1, true) == LS_ERR_STATE);
    CHECK(strstr(ls_last_error(), "rank 0: ") != NULL);
    CHECK(strstr(ls_last_error(), "second; ...)") != NULL);
    destroy(&m);
}

static void test_many_ranks_with_unused_parameters(void **state)
{
    (void)state;
    run_threads(32, play_many, NULL);
}

/* Used in one micro-step is used; without samples, nothing need be. */
static void play_used_before(ls_group *group, void *unused)
{
    (void)unused;
    const ls_ddp_options options = options_of(LS_DDP_OVERLAP);
    model m = make(group, &options);
    ls_params_zero_grad(m.params);
    CHECK_OK(backward(&m, 7, false));
    CHECK_OK(backward(&m, 12, true));
    CHECK(gradient(&m, 0) == 0.5 && gradient(&m, 2) == 3);
    ls_params_zero_grad(m.params);
    if (ls_group_rank(group) == 1)
        CHECK_OK(ls_ddp_backward(m.ddp, m.tape, NULL, 0));
    else
        CHECK_OK(backward(&m, 15, true));
    CHECK(gradient(&m, 1) == 2);
    destroy(&m);
}

static void test_used_in_one_micro_step(void **state)
{
    (void)state;
    run_threads(RANKS, play_used_before, NULL);
}

/*
 * Collectives of the model come between those of the gradients, and on the
 * ranks in different places among them.
 */
static void play_between(ls_group *group, void *unused)
{
    (void)unused;
    ls_ddp_options options = options_of(LS_DDP_OVERLAP);
    options.unused_as_zero = true;
    model m = make(group, &options);
    ls_params *norm;
    ls_sync_bn *bn;
    CHECK_OK(ls_params_new(&norm));
    CHECK_OK(ls_sync_bn_new(&bn, group, norm, "bn", N,
                            &(ls_sync_bn_options){.kind = LS_SYNC_BN_FUSED,
                                                  .no_affine = true,
                                                  .momentum = 0.1}));
    CHECK_OK(ls_params_allocate(norm, group, 0));
    for (int repeat = 0; repeat < 4; repeat++) {
        const int64_t shape[2] = {1, 5};
        ls_params_zero_grad(m.params);
        /* x -> normalised -> product with one of two parameters, or none */
        ls_tensor *x = ls_reshape(m.tape, m.p[0], 2, shape);
        x = ls_sync_bn_forward(bn, m.tape, ls_narrow(m.tape, x, 1, 0, N), NULL);
        ls_tensor *loss = ls_sum(m.tape, ls_mul(m.tape, x, x));
        if (ls_group_rank(group) != 1)
            loss = ls_add(m.tape, loss, ls_sum(m.tape, m.p[3]));
        CHECK_OK(ls_ddp_backward(m.ddp, m.tape, loss, 1));
        ls_tape_reset(m.tape);
        CHECK(fabs(gradient(&m, 3) - 2.0 / 3) < 1e-6);
    }
    ls_sync_bn_free(&bn);
    ls_params_free(&norm);
    destroy(&m);
}

static void test_collectives_of_the_model(void **state)
{
    (void)state;
    run_threads(RANKS, play_between, NULL);
}

/* ---- steps and syncs ----------------------------------------------------- */

static void play_forgotten_sync(ls_group *group, void *strategy)
{
    const ls_ddp_options options = options_of(*(ls_ddp_strategy *)strategy);
    model m = make(group, &options);
    ls_optimizer *sgd = NULL;
    CHECK_OK(ls_optimizer_new(
        &sgd, m.params,
        &(ls_optimizer_spec){.sgd = &(ls_sgd_options){.lr = 0.5}}));
    ls_params_zero_grad(m.params);
    CHECK_OK(backward(&m, 15, false));
    CHECK_OK(backward(&m, 15, false));
    CHECK(ls_optimizer_step(sgd, 1) == LS_ERR_STATE);
    CHECK(strstr(ls_last_error(), "synchronised yet (micro-steps: 2)") != NULL);
    CHECK_OK(backward(&m, 15, true));
    CHECK_OK(ls_optimizer_step(sgd, 1));
    /* Gradients that zero_grad clears have no weight either. */
    ls_params_zero_grad(m.params);
    CHECK_OK(ls_ddp_accumulate(m.ddp, m.tape, loss_of(&m, 15), 1000));
    ls_tape_reset(m.tape);
    ls_params_zero_grad(m.params);
    CHECK_OK(backward(&m, 15, true));
    CHECK(gradient(&m, 1) == 2);
    CHECK_OK(ls_optimizer_step(sgd, 1));
    ls_optimizer_free(&sgd);
    destroy(&m);
}

static void test_forgotten_sync(void **state)
{
    (void)state;
    ls_ddp_strategy bucketed = LS_DDP_BUCKETED;
    run_threads(1, play_forgotten_sync, &bucketed);
    run_threads(2, play_forgotten_sync, &bucketed);
}

/* ---- a rank that cannot go on -------------------------------------------- */

typedef struct failure {
    ls_ddp_strategy strategy;
    bool within;
} failure;

static ls_status give_up(ls_tape *tape, ls_node *node)
{
    (void)tape;
    (void)node;
    return lsi_fail(LS_ERR_SYSTEM, "no more of this");
}

/* The sum of a parameter, of which backward fails. */
static ls_tensor *broken_sum(const model *m, ls_tensor *x)
{
    static const ls_function broken = {.name = "broken", .backward = give_up};
    ls_tensor *const y = ls_tape_output(m->tape, LS_F32, 0, NULL);
    *(float *)tensor_data(y) = 1;
    return ls_tape_record(m->tape, &broken, NULL, &x, 1, &y, 1, NULL, 0);
}

/* Nobody adds to what is left, or steps with it, before it is forgotten. */
static void expect_spoiled(const model *m, bool without_sync)
{
    ls_optimizer *sgd = NULL;
    CHECK_OK(ls_optimizer_new(
        &sgd, m->params,
        &(ls_optimizer_spec){.sgd = &(ls_sgd_options){.lr = 0.5}}));
    CHECK(ls_optimizer_step(sgd, 1) == LS_ERR_STATE);
    CHECK(strstr(ls_last_error(), "the last backward failed") != NULL);
    CHECK(strstr(ls_last_error(), "micro-step") == NULL);
    CHECK(backward(m, 15, false) == LS_ERR_STATE);
    CHECK(strstr(ls_last_error(), "ls_params_zero_grad") != NULL);
    CHECK(backward(m, 15, true) == LS_ERR_STATE);
    CHECK_OK(ls_ddp_set_loss_scale(m->ddp, 1));
    ls_params_zero_grad(m->params);
    ls_optimizer_free(&sgd);
    if (!without_sync)
        return;
    /* The same for a micro-step without a reduction. */
    ls_tensor *loss = broken_sum(m, m->p[1]);
    CHECK(ls_ddp_accumulate(m->ddp, m->tape, loss, 1) == LS_ERR_SYSTEM);
    ls_tape_reset(m->tape);
    CHECK_OK(ls_ddp_set_loss_scale(m->ddp, 1));
    CHECK(backward(m, 15, false) == LS_ERR_STATE);
    ls_params_zero_grad(m->params);
}

/* Rank 1 fails before its backward, or within; all of them are told. */
static void play_failure(ls_group *group, void *opaque)
{
    const failure *const f = opaque;
    const bool fails = ls_group_rank(group) == 1;
    const ls_ddp_options options = options_of(f->strategy);
    model m = make(group, &options);
    ls_params_zero_grad(m.params);
    ls_tensor *loss = loss_of(&m, 15);
    if (fails && f->within)
        loss = ls_add(m.tape, broken_sum(&m, m.p[1]), loss_of(&m, 15));
    else if (fails)
        (void)ls_tape_fail(m.tape, LS_ERR_SYSTEM, "no more of this");
    CHECK(ls_ddp_backward(m.ddp, m.tape, loss, 1) == LS_ERR_SYSTEM);
    CHECK(strstr(ls_last_error(), "no more of this") != NULL);
    CHECK(fails || strstr(ls_last_error(), "rank 1 ") != NULL);
    ls_tape_reset(m.tape);
    expect_spoiled(&m, f->within);
    /* The next step is not the worse for it. */
    CHECK_OK(backward(&m, 15, true));
    CHECK(ls_group_rank(group) != 0 || gradient(&m, 3) == 4);
    destroy(&m);
}

static void test_a_rank_fails(void **state)
{
    (void)state;
    size_t n;
    const lsi_strategy *const all = lsi_strategies(&n);
    for (size_t i = 0; i < n; i++) {
        failure f = {all[i].id, false};
        run_threads(RANKS, play_failure, &f);
        f.within = true;
        run_threads(RANKS, play_failure, &f);
    }
}

/* ---- ranks that want different things ------------------------------------ */

/* As many numbers, but not of the same parameters. */
static void expect_other_sizes(ls_group *group)
{
    const size_t first = ls_group_rank(group) == 1 ? 3 : 2;
    float x[5] = {0};
    const ls_ddp_range ranges[] = {{x, first}, {x + first, 5 - first}};
    ls_ddp *ddp = NULL;
    CHECK(ls_ddp_new_ranges(&ddp, group, ranges, 2, NULL) == LS_ERR_MISMATCH);
    CHECK(strstr(ls_last_error(),
                 "rank 0 has range 0 (2 floats) and rank 1 has range 0 (3 "
                 "floats)") != NULL);
    CHECK(ddp == NULL);
}

/* ---- models that differ -------------------------------------------------- */

/* Makes a model of that number of parameters; that of rank 2 differs. */
typedef struct variant {
    int count;
    int at; /* which */
    enum { NAMED, SHAPED, FROZEN, BUFFER, MISSING } how;
    const char *wanted;
} variant;

static void add_one(ls_params *params, const variant *v, int i, bool differs)
{
    char name[16];
    ls_tensor *tensor = NULL;
    const bool here = differs && i == v->at;
    const int64_t shapes[2][2] = {{3, 4}, {4, 3}};
    const ls_init init = {LS_INIT_CONSTANT, 1, 0};
    snprintf(name, sizeof name, "%s%d", here && v->how == NAMED ? "q" : "p", i);
    if (here && v->how == MISSING)
        return;
    if (here && v->how == BUFFER) {
        CHECK_OK(
            ls_params_add_buffer(params, name, 2, shapes[0], init, &tensor));
        return;
    }
    CHECK_OK(ls_params_add(params, name, 2, shapes[here && v->how == SHAPED],
                           init, &tensor));
    if (here && v->how == FROZEN)
        CHECK_OK(ls_params_set_trainable(params, tensor, false));
}

static ls_params *make_variant(const variant *v, bool differs)
{
    ls_params *params;
    CHECK_OK(ls_params_new(&params));
    for (int i = 0; i < v->count; i++)
        add_one(params, v, i, differs);
    return params;
}

/* Found where memory is shared, and where it is not. */
static void play_variant(ls_group *group, void *opaque)
{
    const variant *const v = opaque;
    const bool differs = ls_group_rank(group) == 2;
    ls_ddp *ddp = NULL;
    ls_params *params = make_variant(v, differs);
    CHECK(ls_params_allocate(params, group, 1) == LS_ERR_MISMATCH);
    CHECK(strstr(ls_last_error(), v->wanted) != NULL);
    CHECK_OK(ls_params_allocate(params, NULL, 1));
    CHECK(ls_ddp_new(&ddp, group, params, NULL) == LS_ERR_MISMATCH);
    CHECK(strstr(ls_last_error(), v->wanted) != NULL);
    ls_params_free(&params);
    /* The group is as it was. */
    params = make_variant(v, false);
    CHECK_OK(ls_params_allocate(params, group, 1));
    CHECK_OK(ls_ddp_new(&ddp, group, params, NULL));
    ls_ddp_free(&ddp);
    ls_params_free(&params);
}

static void test_models_differ(void **state)
{
    (void)state;
    variant variants[] = {
        {1, 0, NAMED,
         "rank 0 has parameter 'p0' (3, 4) and rank 2 has parameter 'q0' (3, "
         "4)"},
        {33, 32, SHAPED,
         "rank 0 has parameter 'p32' (3, 4) and rank 2 has parameter 'p32' "
         "(4, 3)"},
        {33, 16, FROZEN,
         "rank 0 has parameter 'p16' (3, 4) and rank 2 has frozen parameter "
         "'p16' (3, 4)"},
        {2, 1, BUFFER,
         "rank 0 has parameter 'p1' (3, 4) and rank 2 has buffer 'p1' (3, "
         "4)"},
        {7, 3, MISSING,
         "rank 0 has parameter 'p3' (3, 4) and rank 2 has parameter 'p4' (3, "
         "4)"},
        {7, 6, MISSING,
         "rank 0 has parameter 'p6' (3, 4) and rank 2 has nothing more"},
    };
    for (size_t i = 0; i < TEST_COUNT(variants); i++)
        run_threads(RANKS, play_variant, &variants[i]);
}

static void play_different(ls_group *group, void *unused)
{
    (void)unused;
    const int rank = ls_group_rank(group);
    ls_params *params;
    ls_tensor *tensor;
    ls_ddp *ddp = NULL;
    ls_ddp_options options = options_of(rank == 2 ? LS_DDP_NAIVE : LS_DDP_FLAT);
    CHECK_OK(ls_params_new(&params));
    CHECK_OK(ls_params_add(params, "p", 1, (int64_t[]){8},
                           (ls_init){LS_INIT_CONSTANT, 1, 0}, &tensor));
    CHECK_OK(ls_params_allocate(params, group, 1));
    CHECK(ls_ddp_new(&ddp, group, params, &options) == LS_ERR_MISMATCH);
    CHECK(strstr(ls_last_error(), "rank 2 has strategy naive") != NULL);
    options = options_of(rank == 1 ? (ls_ddp_strategy)99 : LS_DDP_FLAT);
    CHECK(ls_ddp_new(&ddp, group, params, &options) == LS_ERR_ARGUMENT);
    CHECK(strstr(ls_last_error(), rank == 1 ? "99 is no" : "rank 1") != NULL);
    CHECK(ddp == NULL);
    ls_params_free(&params);
    expect_other_sizes(group);
}

static void test_ranks_differ(void **state)
{
    (void)state;
    run_threads(RANKS, play_different, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unused_parameters),
        cmocka_unit_test(test_many_ranks_with_unused_parameters),
        cmocka_unit_test(test_used_in_one_micro_step),
        cmocka_unit_test(test_collectives_of_the_model),
        cmocka_unit_test(test_forgotten_sync),
        cmocka_unit_test(test_a_rank_fails),
        cmocka_unit_test(test_ranks_differ),
        cmocka_unit_test(test_models_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
