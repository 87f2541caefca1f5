/*
 * A fault between ls_ddp_begin and ls_ddp_finish on one rank is an
 * error on all ranks that names the gradient and the rank; nobody waits, and
 * the next reduction is as if nothing had been. And memory that cannot be
 * adopted.
 */
#include "testing.h"

#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lockstep/optim.h"
#include "lockstep/parallel.h"
#include "unit/comm/ranks.h"

enum { PARAMS = 4, FROZEN = 2, CULPRIT = 1 };

static const char *const names[PARAMS] = {"first", "second", "frozen", "third"};

typedef struct set {
    ls_params *params;
    ls_optimizer *sgd;
    ls_ddp *ddp;
    float weights[PARAMS][8], grads[PARAMS][8];
} set;

static void make(set *s, ls_group *group, ls_ddp_strategy strategy)
{
    ls_ddp_options how = LS_DDP_OPTIONS_INIT;
    how.strategy = strategy;
    *s = (set){.params = NULL};
    CHECK_OK(ls_params_new(&s->params));
    for (int i = 0; i < PARAMS; i++) {
        const int64_t count = 2 * i + 1;
        ls_tensor *tensor = NULL;
        const ls_param_memory memory = {.data = s->weights[i],
                                        .grad = s->grads[i]};
        CHECK_OK(
            ls_params_adopt(s->params, names[i], 1, &count, &memory, &tensor));
        if (i == FROZEN)
            CHECK_OK(ls_params_set_trainable(s->params, tensor, false));
    }
    CHECK_OK(ls_params_allocate(s->params, group, 1));
    CHECK_OK(ls_ddp_new(&s->ddp, group, s->params, &how));
    CHECK_OK(ls_optimizer_new(
        &s->sgd, s->params,
        &(ls_optimizer_spec){.sgd = &(ls_sgd_options){.lr = 1}}));
}

static void destroy(set *s)
{
    ls_optimizer_free(&s->sgd);
    ls_ddp_free(&s->ddp);
    ls_params_free(&s->params);
}

static bool says(const char *part)
{
    return strstr(ls_last_error(), part) != NULL;
}

/* One that goes well, and steps by 1. */
static void reduce(set *s)
{
    const float before = s->weights[0][0];
    CHECK_OK(ls_ddp_begin(s->ddp, 2));
    for (int i = PARAMS; i-- > 0;) {
        for (int j = 0; j < 8; j++)
            s->grads[i][j] = 2;
        if (i != FROZEN)
            CHECK_OK(ls_ddp_ready(s->ddp, (size_t)i));
    }
    CHECK_OK(ls_ddp_finish(s->ddp));
    CHECK_OK(ls_optimizer_step(s->sgd, 1));
    CHECK(s->weights[0][0] == before - 1);
}

/* The fault of the culprit; the other ranks make valid calls. */
typedef struct offence {
    const char *what;
    bool begins;
    double weight;
    size_t ready[5];
    size_t n;
    ls_status status;  /* of the last call before ls_ddp_finish, and on all */
    const char *local; /* what that says; NULL: nothing is wrong with it */
    const char *told;  /* what all are told in ls_ddp_finish */
} offence;

static const offence offences[] = {
    {"twice",
     true,
     1,
     {3, 1, 3},
     3,
     LS_ERR_STATE,
     "the gradient of 'third' was reported ready twice since ls_ddp_begin, "
     "on rank 1",
     "'third' was reported ready twice"},
    {"not at all",
     true,
     1,
     {3, 0},
     2,
     LS_ERR_STATE,
     NULL,
     "gradients were not ready at ls_ddp_finish (rank 1: second)"},
    {"frozen",
     true,
     1,
     {3, 2},
     2,
     LS_ERR_ARGUMENT,
     "'frozen' (parameter 2) is frozen",
     "'frozen' (parameter 2) is frozen"},
    {"no such",
     true,
     1,
     {4},
     1,
     LS_ERR_ARGUMENT,
     "parameter 4 does not exist; parameters in the set: 4",
     "parameter 4 does not exist; parameters in the set: 4"},
    {"weight",
     true,
     NAN,
     {0},
     0,
     LS_ERR_ARGUMENT,
     "weight is nan",
     "weight is nan"},
    {"no begin",
     false,
     0,
     {0},
     0,
     LS_ERR_STATE,
     NULL,
     "ls_ddp_finish: rank 1 has not called ls_ddp_begin"},
};

static void offend(set *s, const offence *o)
{
    ls_status status = LS_OK;
    if (o->begins)
        status = ls_ddp_begin(s->ddp, o->weight);
    for (size_t i = 0; i < o->n; i++) {
        CHECK(status == LS_OK);
        status = ls_ddp_ready(s->ddp, o->ready[i]);
    }
    CHECK(status == (o->local != NULL ? o->status : LS_OK));
    CHECK(o->local == NULL || says(o->local));
    /* Whoever goes on is told again. */
    CHECK(o->local == NULL || ls_ddp_ready(s->ddp, 0) == o->status);
}

/* A rank that goes on may get the error before the end. */
static void behave(set *s, ls_status or_status)
{
    static const size_t order[] = {3, 0, 1};
    ls_status status = LS_OK;
    for (size_t i = 0; i < TEST_COUNT(order); i++) {
        const ls_status before = status;
        status = ls_ddp_ready(s->ddp, order[i]);
        CHECK(status == or_status || (status == LS_OK && before == LS_OK));
    }
}

static void play_offences(ls_group *group, void *unused)
{
    (void)unused;
    for (int k = 1; k <= LS_DDP_STRATEGY_COUNT; k++) {
        set s;
        make(&s, group, (ls_ddp_strategy)k);
        for (size_t i = 0; i < TEST_COUNT(offences); i++) {
            const offence *const o = &offences[i];
            if (ls_group_rank(group) == CULPRIT) {
                offend(&s, o);
            } else {
                CHECK_OK(ls_ddp_begin(s.ddp, 1));
                behave(&s, o->status);
            }
            CHECK(ls_ddp_finish(s.ddp) == o->status);
            CHECK(says(o->told));
            CHECK(says("rank 1") || ls_group_rank(group) == CULPRIT);
            CHECK(ls_optimizer_step(s.sgd, 1) == LS_ERR_STATE);
            reduce(&s);
        }
        destroy(&s);
    }
}

static void test_one_rank_is_wrong(void **state)
{
    static const int sizes[] = {2, 3, 5};
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(sizes); i++)
        run_threads(sizes[i], play_offences, NULL);
}

/* ---- a rank that leaves -------------------------------------------------- */

static void play_leaving(ls_group *group, void *unused)
{
    (void)unused;
    for (int k = 1; k <= LS_DDP_STRATEGY_COUNT; k++) {
        set s;
        make(&s, group, (ls_ddp_strategy)k);
        CHECK_OK(ls_ddp_begin(s.ddp, 1));
        CHECK_OK(ls_ddp_ready(s.ddp, 3));
        if (ls_group_rank(group) != CULPRIT) {
            CHECK(ls_ddp_finish(s.ddp) == LS_ERR_STATE);
            CHECK(says("rank 1 called ls_ddp_free between"));
        }
        destroy(&s); /* frees it before the end on the culprit */
    }
}

static void test_a_rank_that_frees_is_no_hang(void **state)
{
    (void)state;
    run_threads(3, play_leaving, NULL);
}

/* ---- a rank that dies ---------------------------------------------------- */

static void play_dying(ls_group *group, void *strategy)
{
    set s;
    make(&s, group, *(const ls_ddp_strategy *)strategy);
    reduce(&s);
    CHECK_OK(ls_ddp_begin(s.ddp, 1));
    if (ls_group_rank(group) == CULPRIT) {
        CHECK_OK(ls_ddp_ready(s.ddp, 3));
        kill(getpid(), SIGKILL);
    }
    behave(&s, LS_ERR_PEER_DEAD);
    CHECK(ls_ddp_finish(s.ddp) == LS_ERR_PEER_DEAD);
    CHECK(says("rank 1"));
    destroy(&s);
}

static void test_a_rank_that_dies_is_named(void **state)
{
    (void)state;
    for (int k = 1; k <= LS_DDP_STRATEGY_COUNT; k++) {
        ls_ddp_strategy strategy = (ls_ddp_strategy)k;
        pid_t pids[3];
        start_processes(3, play_dying, &strategy, pids);
        for (int r = 0; r < 3; r++) {
            const int status = wait_process(pids[r]);
            if (r == CULPRIT)
                assert_true(WIFSIGNALED(status));
            else
                assert_int_equal(status, 0);
        }
    }
}

/* ---- this rank alone ----------------------------------------------------- */

static void test_out_of_turn(void **state)
{
    (void)state;
    ls_group *group = NULL;
    set s;
    assert_ok(ls_group_open_threads(&group, 1));
    make(&s, group, LS_DDP_OVERLAP);
    assert_error(ls_ddp_ready(s.ddp, 3), LS_ERR_STATE,
                 "the gradient of 'third' is ready on rank 0, but no reduction "
                 "has begun");
    reduce(&s);
    assert_error(ls_ddp_ready(s.ddp, 3), LS_ERR_STATE,
                 "no reduction has begun");
    assert_ok(ls_ddp_begin(s.ddp, 1));
    assert_error(ls_ddp_begin(s.ddp, 1), LS_ERR_STATE,
                 "previous gradient reduction is not finished");
    assert_error(ls_optimizer_step(s.sgd, 1), LS_ERR_STATE,
                 "call ls_ddp_finish before the step");
    for (size_t i = 0; i < PARAMS; i++)
        if (i != FROZEN)
            assert_ok(ls_ddp_ready(s.ddp, i));
    assert_ok(ls_ddp_finish(s.ddp));
    reduce(&s);
    destroy(&s);
    ls_group_close(&group);
}

/* ---- sets without gradients ---------------------------------------------- */

static void play_nothing(ls_group *group, void *frozen)
{
    for (int s = 1; s <= LS_DDP_STRATEGY_COUNT; s++) {
        const int64_t count = 5;
        float weights[5] = {1, 2, 3, 4, (float)ls_group_rank(group)};
        const ls_param_memory memory = {.data = weights};
        ls_params *params = NULL;
        ls_tensor *tensor = NULL;
        ls_ddp *ddp = NULL;
        ls_optimizer *sgd = NULL;
        ls_ddp_options how = LS_DDP_OPTIONS_INIT;
        how.strategy = (ls_ddp_strategy)s;
        CHECK_OK(ls_params_new(&params));
        if (frozen != NULL) {
            CHECK_OK(ls_params_adopt(params, "w", 1, &count, &memory, &tensor));
            CHECK_OK(ls_params_set_trainable(params, tensor, false));
        }
        CHECK_OK(ls_params_allocate(params, group, 1));
        CHECK_OK(ls_ddp_new(&ddp, group, params, &how));
        CHECK_OK(ls_optimizer_new(
            &sgd, params,
            &(ls_optimizer_spec){.sgd = &(ls_sgd_options){.lr = 1}}));
        CHECK_OK(ls_ddp_begin(ddp, 1));
        CHECK_OK(ls_ddp_finish(ddp));
        CHECK_OK(ls_optimizer_step(sgd, 1));
        CHECK(weights[4] == (frozen != NULL ? 0 : ls_group_rank(group)));
        ls_optimizer_free(&sgd);
        ls_ddp_free(&ddp);
        ls_params_free(&params);
    }
}

static void test_sets_without_gradients(void **state)
{
    static int yes;
    (void)state;
    run_threads(3, play_nothing, NULL);
    run_threads(3, play_nothing, &yes);
}

/* ---- memory that cannot be adopted --------------------------------------- */

static void refuse(ls_params *params, ls_param_memory memory, ls_status status,
                   const char *part)
{
    const int64_t count = 4;
    const size_t before = ls_params_count(params);
    assert_error(ls_params_adopt(params, "w", 1, &count, &memory, NULL), status,
                 part);
    assert_int_equal(ls_params_count(params), before);
}

static void test_memory_that_cannot_be_adopted(void **state)
{
    (void)state;
    const int64_t count = 4, none = 0;
    float x[8] = {0}, y[8] = {0};
    ls_params *params = NULL;
    assert_ok(ls_params_new(&params));
    refuse(params, (ls_param_memory){.data = NULL}, LS_ERR_ARGUMENT,
           "the memory of 'w' is NULL");
    refuse(params, (ls_param_memory){.data = x, .dtype = LS_F64}, LS_ERR_DTYPE,
           "the weights of 'w' have dtype f64");
    refuse(params,
           (ls_param_memory){.data = x, .grad = y, .grad_dtype = LS_I32},
           LS_ERR_DTYPE, "the gradients of 'w' have dtype i32");
    refuse(params, (ls_param_memory){.data = (char *)x + 2}, LS_ERR_ARGUMENT,
           "must be a multiple of 4, the size of f32 in bytes");
    refuse(params, (ls_param_memory){.data = x, .grad = (char *)y + 1},
           LS_ERR_ARGUMENT, "the gradients of 'w' are at address");
    refuse(params, (ls_param_memory){.struct_size = 7, .data = x},
           LS_ERR_ARGUMENT, "ls_param_memory.struct_size is 7");
    assert_ok(ls_params_adopt(params, "v", 1, &count,
                              &(ls_param_memory){.data = x, .grad = y}, NULL));
    refuse(params, (ls_param_memory){.data = x + 3}, LS_ERR_ARGUMENT,
           "'w' and 'v' overlap");
    refuse(params, (ls_param_memory){.data = x + 4, .grad = y + 2},
           LS_ERR_ARGUMENT, "'w' and 'v' overlap");
    refuse(params, (ls_param_memory){.data = y + 3}, LS_ERR_ARGUMENT,
           "'w' and 'v' overlap");
    refuse(params, (ls_param_memory){.data = x + 4, .grad = x}, LS_ERR_ARGUMENT,
           "'w' and 'v' overlap");
    refuse(params, (ls_param_memory){.data = x + 4, .grad = x + 4},
           LS_ERR_ARGUMENT, "the weights and the gradients of 'w' overlap");
    assert_ok(ls_params_adopt(params, "w", 1, &count,
                              &(ls_param_memory){.data = x + 4, .grad = y + 4},
                              NULL));
    assert_ok(ls_params_adopt(params, "nothing", 1, &none,
                              &(ls_param_memory){.data = NULL}, NULL));
    assert_ok(ls_params_allocate(params, NULL, 1));
    ls_params_free(&params);
    assert_true(x[0] == 0);
}

/* Halves on one rank alone. */
static void play_types(ls_group *group, void *unused)
{
    (void)unused;
    const int64_t count = 4;
    float x[4] = {0};
    ls_params *params = NULL;
    const ls_param_memory memory = {
        .data = x, .dtype = ls_group_rank(group) == 1 ? LS_BF16 : LS_F32};
    CHECK_OK(ls_params_new(&params));
    CHECK_OK(ls_params_adopt(params, "w", 1, &count, &memory, NULL));
    CHECK(ls_params_allocate(params, group, 1) == LS_ERR_MISMATCH);
    CHECK(says("adopted as"));
    ls_params_free(&params);
}

static void test_types_that_differ(void **state)
{
    (void)state;
    run_threads(3, play_types, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_rank_is_wrong),
        cmocka_unit_test(test_a_rank_that_frees_is_no_hang),
        cmocka_unit_test(test_a_rank_that_dies_is_named),
        cmocka_unit_test(test_out_of_turn),
        cmocka_unit_test(test_sets_without_gradients),
        cmocka_unit_test(test_memory_that_cannot_be_adopted),
        cmocka_unit_test(test_types_that_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
