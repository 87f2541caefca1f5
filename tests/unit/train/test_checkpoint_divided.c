/*
 * Checkpoints of divided parameters (strategy fsdp) and of divided averages
 * (every strategy): N ranks save and M load; they go on with the bits
 * of the run that was not interrupted.
 * Only rank 0 has samples, so that sums do not depend on the number of ranks.
 */
#include "testing.h"

#include <math.h>
#include <unistd.h>

#include "lockstep/checkpoint.h"
#include "model/checkpoint/folder.h"
#include "model/checkpoint/lock.h"
#include "model/parallel/strategy.h"
#include "unit/comm/ranks.h"
#include "unit/parallel/toy.h"
#include "unit/parallel/weights.h"

enum { BEFORE = 3, AFTER = 3, MOST_RANKS = 4, MOST_WEIGHTS = 2000 };

typedef struct plan {
    ls_ddp_strategy strategy;
    lsi_path folder;
    int from, to; /* steps; > 0: loads what was saved there */
    bool saves;   /* at the end */
    bool averages;
    float weights[MOST_WEIGHTS];
    size_t count;
} plan;

typedef struct run {
    toy model;
    ls_ddp *ddp;
    ls_optimizer *adamw;
} run;

static void load(const plan *p, ls_group *group, const run *r)
{
    ls_checkpoint *found = NULL;
    CHECK_OK(ls_checkpoint_open(&found, group, p->folder.text));
    CHECK(ls_checkpoint_step(found) == p->from);
    CHECK_OK(ls_checkpoint_load(found, r->model.params, r->adamw));
    ls_checkpoint_close(&found);
}

static void train(const plan *p, const ls_group *group, run *r)
{
    toy *const m = &r->model;
    const bool works = ls_group_rank(group) == 0;
    for (int step = p->from; step < p->to; step++) {
        ls_params_zero_grad(m->params);
        CHECK_OK(ls_ddp_backward(r->ddp, m->tape,
                                 works ? toy_loss(m, step, 0, TOY_ROWS) : NULL,
                                 works ? TOY_ROWS : 0));
        CHECK_OK(ls_optimizer_step(r->adamw, 1));
        ls_tape_reset(m->tape);
    }
}

static void play(ls_group *group, void *opaque)
{
    plan *const p = opaque;
    run r = {.ddp = NULL};
    ls_ddp_options options = LS_DDP_OPTIONS_INIT;
    options.strategy = p->strategy;
    /* Loading must replace other weights. */
    toy_make(&r.model, true, group, p->from > 0 ? 9 : 1);
    CHECK_OK(ls_ddp_new(&r.ddp, group, r.model.params, &options));
    CHECK_OK(ls_optimizer_new(&r.adamw, r.model.params, NULL));
    if (p->averages)
        CHECK_OK(ls_ema_start(r.adamw, 0.75));
    if (p->from > 0)
        load(p, group, &r);
    train(p, group, &r);
    const ls_checkpoint_parts parts = {.params = r.model.params,
                                       .optimizer = r.adamw};
    if (p->saves)
        CHECK_OK(ls_checkpoint_save(group, p->folder.text, p->to, &parts, 1));
    if (p->averages)
        CHECK_OK(ls_ema_swap(r.adamw));
    if (ls_group_rank(group) == 0)
        p->count = copy_weights(r.model.params, p->weights, MOST_WEIGHTS);
    ls_optimizer_free(&r.adamw);
    ls_ddp_free(&r.ddp);
    toy_destroy(&r.model);
}

static void check_pair(ls_ddp_strategy strategy, int saving, int loading,
                       const plan *whole)
{
    char folder[] = "/tmp/lockstep-divided-XXXXXX";
    assert_non_null(mkdtemp(folder));
    static plan p;
    p = (plan){.strategy = strategy,
               .to = BEFORE,
               .saves = true,
               .averages = whole->averages};
    snprintf(p.folder.text, sizeof(p.folder.text), "%s", folder);
    run_threads(saving, play, &p);
    p.from = BEFORE;
    p.to = BEFORE + AFTER;
    p.saves = false;
    run_threads(loading, play, &p);
    assert_int_equal(p.count, whole->count);
    assert_memory_equal(p.weights, whole->weights,
                        whole->count * sizeof(float));
    assert_ok(lsi_step_remove(folder, BEFORE));
    unlink(lsi_path_in(folder, LSI_LOCK_FILE).text);
    assert_int_equal(rmdir(folder), 0);
}

static void test_any_numbers_of_ranks(void **state)
{
    (void)state;
    static plan whole = {.strategy = LS_DDP_FLAT, .to = BEFORE + AFTER};
    run_threads(1, play, &whole);
    assert_true(whole.count > 0);
    for (int saving = 1; saving <= MOST_RANKS; saving++)
        for (int loading = 1; loading <= MOST_RANKS; loading++)
            check_pair(LS_DDP_FSDP, saving, loading, &whole);
}

static void test_averages(void **state)
{
    (void)state;
    size_t n;
    const lsi_strategy *const strategies = lsi_strategies(&n);
    static plan whole = {
        .strategy = LS_DDP_FLAT, .to = BEFORE + AFTER, .averages = true};
    run_threads(1, play, &whole);
    for (size_t i = 0; i < n; i++) {
        check_pair(strategies[i].id, 1, 3, &whole);
        check_pair(strategies[i].id, 3, 2, &whole);
        check_pair(strategies[i].id, 2, 5, &whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_numbers_of_ranks),
        cmocka_unit_test(test_averages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
