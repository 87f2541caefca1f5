/*
 * The choice between the kernel's copy and the windows, and between stores into
 * the windows: one answer for all ranks, within the time, also if a rank does
 * not come.
 */
#include "testing.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/cpu.h"
#include "comm/coll/copy_probe.h"
#include "comm/node/transport.h"
#include "comm/state/state.h"
#include "ranks.h"

/* By which the clock goes on at each look, and has gone on; 0: it is real. */
static _Atomic uint64_t step_ns, added_ns;

uint64_t clock_of_test(void) __asm__("__wrap_lsi_clock_ns");
uint64_t clock_of_system(void) __asm__("__real_lsi_clock_ns");

uint64_t clock_of_test(void)
{
    const uint64_t step = atomic_load(&step_ns);
    return clock_of_system() + atomic_fetch_add(&added_ns, step) + step;
}

static void expect_answer(const lsi_copy_times *times, int n, bool past_caches,
                          lsi_copying copying)
{
    const lsi_copy_answer answer =
        lsi_copy_times_answer(times, n, !past_caches);
    assert_int_equal(answer.past_caches, past_caches);
    assert_int_equal(answer.copying, copying);
}

static void the_sum_decides(void **state)
{
    /* cached, past the caches, kernel */
    const lsi_copy_times kernel[] = {{200, 250, 100}, {100, 300, 150}};
    const lsi_copy_times much[] = {{200, 250, 100}, {100, 300, 99}};
    const lsi_copy_times cached[] = {{100, 250, 200}, {150, 150, 100}};
    const lsi_copy_times past[] = {{300, 50, 200}, {100, 150, 100}};
    const lsi_copy_times equal[] = {{100, 100, 100}, {100, 100, 100}};
    const lsi_copy_times windows[] = {{300, 200, NAN}, {300, 200, NAN}};
    const lsi_copy_times silent[] = {{200, 100, 50}, {NAN, NAN, NAN}};
    (void)state;
    expect_answer(kernel, 2, false, LSI_COPYING_MOVES);
    expect_answer(much, 2, false, LSI_COPYING_PAYS);
    expect_answer(cached, 2, false, LSI_COPYING_LOSES);
    expect_answer(past, 2, true, LSI_COPYING_LOSES);
    expect_answer(equal, 2, false, LSI_COPYING_LOSES);
    expect_answer(windows, 2, true, LSI_COPYING_LOSES);
    expect_answer(silent, 1, true, LSI_COPYING_PAYS);
    for (int usual = 0; usual < 2; usual++) {
        const lsi_copy_answer answer =
            lsi_copy_times_answer(silent, 2, usual == 1);
        assert_int_equal(answer.past_caches, usual);
        assert_int_equal(answer.copying, LSI_COPYING_LOSES);
    }
}

/* All ranks say the same, and so do the parts of the group. */
static void agree(ls_group *group, void *unused)
{
    int64_t answers[2];
    ls_group *part = NULL;
    (void)unused;
    const lsi_copying known = group->memory.node->copying;
    const bool past = group->memory.node->past_caches;
    CHECK(known != LSI_COPYING_UNKNOWN);
    CHECK(group->select->copying == known);
    answers[0] = answers[1] = 2 * (int64_t)known + past;
    CHECK_OK(ls_all_reduce(group, &answers[0], &answers[0], 1, LS_I64,
                           LS_REDUCE_MIN));
    CHECK_OK(ls_all_reduce(group, &answers[1], &answers[1], 1, LS_I64,
                           LS_REDUCE_MAX));
    CHECK(answers[0] == answers[1]);
    CHECK_OK(ls_group_split(group, 0, -ls_group_rank(group), &part));
    CHECK(part->select->copying == known);
    CHECK(part->memory.node->copying == known);
    ls_group_close(&part);
}

static void all_ranks_know_the_same(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 5; ranks++)
        run_processes(ranks, agree, NULL);
}

/* Threads share the node, and would race for its answer. */
static void split_often(ls_group *group, void *unused)
{
    (void)unused;
    for (int i = 0; i < 50; i++) {
        ls_group *part = NULL;
        CHECK_OK(ls_group_split(group, 0, 0, &part));
        CHECK(part->memory.node->copying == LSI_COPYING_UNKNOWN);
        CHECK(part->select->copying == LSI_COPYING_UNKNOWN);
        ls_group_close(&part);
    }
}

static void threads_measure_nothing(void **state)
{
    (void)state;
    run_threads(3, split_often, NULL);
}

/* Where each look at the clock takes a second, no rank waits for another. */
static void expect_loss(ls_group *group, void *unused)
{
    lsi_copy_answer answer = {.copying = LSI_COPYING_PAYS};
    (void)unused;
    /* The windows are as new: the first probe has left its marks there. */
    memset(lsi_window(group, ls_group_rank(group)), 0, LSI_PAGE);
    CHECK_OK(ls_barrier(group));
    atomic_store(&step_ns, 1000000000);
    if (ls_group_rank(group) == 0)
        usleep(20000);
    CHECK_OK(lsi_copy_probe(group, true, &answer));
    CHECK(answer.copying == LSI_COPYING_LOSES &&
          answer.past_caches == lsi_cpu_stores_wait());
    CHECK(!group->memory.admits || group->memory.can_copy);
    atomic_store(&step_ns, 0);
    CHECK_OK(ls_barrier(group));
}

static void who_is_late_is_not_waited_for(void **state)
{
    (void)state;
    run_processes(2, expect_loss, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sum_decides),
        cmocka_unit_test(all_ranks_know_the_same),
        cmocka_unit_test(threads_measure_nothing),
        cmocka_unit_test(who_is_late_is_not_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
