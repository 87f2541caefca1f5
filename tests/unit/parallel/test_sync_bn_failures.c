/*
 * A rank that fails between the collectives of synchronised batch
 * normalisation: the others are told where they wait for it, in the backward of
 * a layer, and at once.
 */
#include "testing.h"

#include "base/clock.h"
#include "base/error.h"
#include "lockstep/parallel.h"
#include "lockstep/profile.h"
#include "unit/comm/ranks.h"

enum { ROWS = 4, COLS = 3, LAYERS = 2 };

/* Seconds; far less than the timeout, and enough for a busy machine. */
static const double timeout = 60, at_once = 10;

typedef struct model {
    ls_params *params;
    ls_sync_bn *bn[LAYERS];
    ls_tape *tape;
    ls_ddp *ddp;
    ls_tensor *x;
} model;

static model make(ls_group *group)
{
    static const char *const names[LAYERS] = {"first", "second"};
    const ls_sync_bn_options options = {.kind = LS_SYNC_BN_FUSED,
                                        .momentum = 0.1};
    model m = {0};
    CHECK_OK(ls_params_new(&m.params));
    for (int i = 0; i < LAYERS; i++)
        CHECK_OK(ls_sync_bn_new(&m.bn[i], group, m.params, names[i], COLS,
                                &options));
    CHECK_OK(ls_params_allocate(m.params, group, 1));
    CHECK_OK(ls_ddp_new(&m.ddp, group, m.params, NULL));
    CHECK_OK(ls_tape_new(&m.tape));
    CHECK_OK(ls_tensor_new(&m.x, LS_F32, 2, (int64_t[]){ROWS, COLS}));
    float *const x = tensor_data(m.x);
    for (int i = 0; i < ROWS * COLS; i++)
        x[i] = (float)(i * i % 7 + ls_group_rank(group));
    CHECK_OK(ls_group_set_timeout(group, timeout));
    return m;
}

static void destroy(model *m)
{
    ls_tensor_free(&m->x);
    ls_tape_free(&m->tape);
    ls_ddp_free(&m->ddp);
    for (int i = 0; i < LAYERS; i++)
        ls_sync_bn_free(&m->bn[i]);
    ls_params_free(&m->params);
}

/* ---- where a rank fails ---------------------------------------------------
 */

typedef enum place {
    NOWHERE,
    BETWEEN,      /* the layers, forward */
    AFTER,        /* both layers, forward */
    WITHOUT_LOSS, /* no error, but it has lost the loss */
    IN_BACKWARD,  /* before the layers' turn */
    BETWEEN_BACKWARD,
    PLACES
} place;

typedef struct plan {
    int failing;
    place where;
    enum { PLAIN, SYNC, MICRO_STEP } call;
} plan;

static ls_status fail_backward(ls_tape *tape, ls_node *node)
{
    (void)tape;
    (void)node;
    return lsi_fail(LS_ERR_SYSTEM, "no more of this");
}

/* The same numbers; backward goes through a copy, or fails. */
static ls_tensor *pass(const model *m, ls_tensor *x, bool fails)
{
    static const ls_function broken = {.name = "broken",
                                       .backward = fail_backward};
    if (!fails || x == NULL)
        return x;
    ls_tensor *const y = ls_tape_output(m->tape, LS_F32, 2, ls_tensor_shape(x));
    CHECK_OK(ls_tensor_copy(y, x));
    return ls_tape_record(m->tape, &broken, NULL, &x, 1, &y, 1, NULL, 0);
}

static void fail_tape_if(const model *m, bool fails)
{
    if (fails)
        (void)ls_tape_fail(m->tape, LS_ERR_SYSTEM, "no more of this");
}

static ls_tensor *loss_of(const model *m, place where)
{
    ls_tensor *y = ls_sync_bn_forward(m->bn[0], m->tape, m->x, NULL);
    fail_tape_if(m, where == BETWEEN);
    y = pass(m, y, where == BETWEEN_BACKWARD);
    y = ls_sync_bn_forward(m->bn[1], m->tape, y, NULL);
    fail_tape_if(m, where == AFTER);
    y = pass(m, y, where == IN_BACKWARD);
    ls_tensor *const loss = ls_sum(m->tape, ls_mul(m->tape, y, y));
    return where == WITHOUT_LOSS ? NULL : loss;
}

static ls_status backward(const model *m, const plan *p, ls_tensor *loss)
{
    return p->call == PLAIN
               ? ls_backward(m->tape, loss, 1)
               : (p->call == SYNC
                      ? ls_ddp_backward(m->ddp, m->tape, loss, 1)
                      : ls_ddp_accumulate(m->ddp, m->tape, loss, 1));
}

static void play(ls_group *group, void *opaque)
{
    const plan *const p = opaque;
    const bool own = ls_group_rank(group) == p->failing;
    char wanted[32];
    snprintf(wanted, sizeof wanted, "rank %d cannot take part", p->failing);
    model m = make(group);
    ls_params_zero_grad(m.params);
    const double begin = lsi_clock_seconds();
    ls_tensor *const loss = loss_of(&m, own ? p->where : NOWHERE);
    const ls_status status = backward(&m, p, loss);
    CHECK(lsi_clock_seconds() - begin < at_once);
    CHECK(status ==
          (p->where == WITHOUT_LOSS ? LS_ERR_ARGUMENT : LS_ERR_SYSTEM));
    CHECK(strstr(ls_last_error(), p->where == WITHOUT_LOSS
                                      ? "loss is NULL"
                                      : "no more of this") != NULL);
    CHECK(own == (strstr(ls_last_error(), wanted) == NULL));
    /* The same again is neither a collective nor another error. */
    CHECK(ls_backward(m.tape, loss, 1) != LS_OK);
    ls_tape_reset(m.tape);
    ls_params_zero_grad(m.params);
    /* The next step is not the worse for it. */
    CHECK_OK(ls_ddp_backward(m.ddp, m.tape, loss_of(&m, NOWHERE), 1));
    destroy(&m);
}

static void check(int ranks)
{
    for (place where = BETWEEN; where < PLACES; where++)
        for (int call = PLAIN; call <= MICRO_STEP; call++)
            for (int failing = 0; failing < ranks; failing++) {
                plan p = {.failing = failing, .where = where};
                p.call = call;
                run_threads(ranks, play, &p);
            }
}

static void test_two_ranks(void **state)
{
    (void)state;
    check(2);
}

static void test_three_ranks(void **state)
{
    (void)state;
    check(3);
}

/* ---- without memory -------------------------------------------------------
 */

/* The memory that a step needs, then a little less, and less: nobody waits. */
static void play_without_memory(ls_group *group, void *unused)
{
    (void)unused;
    const bool own = ls_group_rank(group) == 1;
    const plan p = {.call = SYNC};
    model m = make(group);
    int failures = 0;
    for (size_t spare = 0; spare < 1 << 13; spare += 512) {
        ls_memory_stats memory;
        ls_tape_free(&m.tape);
        CHECK_OK(ls_tape_new(&m.tape));
        ls_params_zero_grad(m.params);
        ls_memory_total(&memory);
        if (own)
            ls_memory_set_budget(memory.live_bytes + spare);
        const double begin = lsi_clock_seconds();
        const ls_status status = backward(&m, &p, loss_of(&m, NOWHERE));
        CHECK(lsi_clock_seconds() - begin < at_once);
        ls_memory_set_budget(0);
        CHECK(status == LS_OK || status == LS_ERR_BUDGET);
        failures += status != LS_OK;
        ls_tape_reset(m.tape);
    }
    CHECK(failures > 0);
    destroy(&m);
}

/* The budget is the process's, so ranks are processes here. */
static void test_a_rank_without_memory(void **state)
{
    (void)state;
    run_processes(2, play_without_memory, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_rank_without_memory),
        cmocka_unit_test(test_two_ranks),
        cmocka_unit_test(test_three_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
