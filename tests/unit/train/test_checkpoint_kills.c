/*
 * Runs that are killed at random moments while they save all the time, and go
 * on from the newest intact checkpoint. None may be lost, and the end must be
 * that of a run without a break. LOCKSTEP_TEST_KILLS says how many kills.
 */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/rng.h"
#include "checkpoint_model.h"
#include "model/checkpoint/folder.h"
#include "testing.h"

enum { RANKS = 2, USUAL_KILLS = 12 };

/* One more step, and a checkpoint. */
static void advance(ls_group *group, const plan *p, const model *m,
                    int64_t *step)
{
    const ls_checkpoint_parts parts = {.params = m->params,
                                       .optimizer = m->optimizer};
    train(m, (int)*step, 1);
    exchange(p, group, m);
    ++*step;
    if (ls_checkpoint_save(group, p->folder, *step, &parts, p->keep) != LS_OK)
        _exit(1);
}

static void begin(ls_group *group, void *opaque)
{
    model m = make_model(opaque, group, 1);
    int64_t step = 0;
    advance(group, opaque, &m, &step);
    free_model(&m);
}

/* Goes on from what there is and saves after every step. */
static void run_on(ls_group *group, void *opaque)
{
    model m = make_model(opaque, group, 99);
    const plan *const p = opaque;
    ls_checkpoint *c = NULL;
    if (ls_checkpoint_open(&c, group, p->folder) != LS_OK ||
        ls_checkpoint_load(c, m.params, m.optimizer) != LS_OK)
        _exit(1);
    int64_t step = ls_checkpoint_step(c);
    ls_checkpoint_close(&c);
    for (;;)
        advance(group, p, &m, &step);
}

static int64_t newest_folder(const plan *p)
{
    int64_t *steps;
    size_t n;
    assert_ok(lsi_steps_list(p->folder, &steps, &n));
    const int64_t newest = n > 0 ? steps[0] : 0;
    lsi_free(steps);
    return newest;
}

/* From when a new save has begun until some moment of this or a later one. */
static void run_and_kill(plan *p, useconds_t after)
{
    pid_t pids[RANKS];
    start_processes(RANKS, run_on, p, pids);
    const int64_t old = newest_folder(p);
    for (int tries = 0; newest_folder(p) == old && tries < 20000; tries++)
        usleep(500);
    usleep(after);
    for (int r = 0; r < RANKS; r++)
        kill(pids[r], SIGKILL);
    for (int r = 0; r < RANKS; r++)
        (void)wait_process(pids[r]);
}

static void expect_load(plan *p)
{
    const int64_t before = p->opened;
    run_threads(RANKS, load, p);
    if (p->status[0] != LS_OK)
        fail_msg("after step %lld: %s", (long long)before, p->message[0]);
    assert_true(p->opened >= before);
}

static void kills_lose_nothing(void **state)
{
    (void)state;
    const char *text = getenv("LOCKSTEP_TEST_KILLS");
    const int kills = text != NULL ? atoi(text) : USUAL_KILLS;
    const lsi_rng_key key = {(uint64_t)getpid(), 1};
    plan p = new_plan();
    p.steps = -1;
    p.keep = 2;
    p.sharded = true;
    run_threads(RANKS, begin, &p);
    for (int i = 0; i < kills; i++) {
        const uint64_t after = lsi_rng_below(key, 0, (uint64_t)i, 150000);
        run_and_kill(&p, (useconds_t)after);
        expect_load(&p);
    }
    print_message("%d kills, %lld steps\n", kills, (long long)p.opened);
    discard(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kills_lose_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
