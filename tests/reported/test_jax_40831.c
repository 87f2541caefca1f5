/*
 * jax-ml/jax#40831: a process came 40 s late to a reduce-scatter, within the
 * timeout that the program had set, and the library gave up after 30 s. The
 * clock of this test is fast: each look at it adds half a slice, and the late
 * rank wakes the other one until that has counted 40 s.
 */
#include "testing.h"

#include <sched.h>

#include "../unit/comm/clocks.h"
#include "../unit/comm/ranks.h"
#include "base/suspending_clock.h"
#include "comm/state/bell.h"
#include "rounds.h"

#define SECOND_NS ((uint64_t)1000 * 1000 * 1000)

enum { LATE_SECONDS = 40, COUNT = 257 };

static size_t rounds = DEFAULT_ROUNDS;

/* ---- operations ---------------------------------------------------------- */

/* A value that depends on the rank, the element and the round. */
static int64_t value(int rank, size_t i, size_t round)
{
    return (int64_t)(round * 31 + i * 17) % 1009 + 10000 * rank;
}

typedef ls_status call_fn(ls_group *group, int64_t *data, size_t round);

static int64_t sum(size_t i, size_t round)
{
    return value(0, i, round) + value(1, i, round);
}

static void fill(ls_group *group, int64_t *data, size_t round)
{
    for (size_t i = 0; i < 2 * COUNT; i++)
        data[i] = value(ls_group_rank(group), i, round);
}

static ls_status reduce_scatter(ls_group *group, int64_t *data, size_t round)
{
    const size_t own = (size_t)ls_group_rank(group) * COUNT;
    fill(group, data, round);
    const ls_status status = ls_reduce_scatter(group, data, data + own, COUNT,
                                               LS_I64, LS_REDUCE_SUM);
    for (size_t i = own; i < own + COUNT && status == LS_OK; i++)
        CHECK(data[i] == sum(i, round));
    return status;
}

static ls_status all_reduce(ls_group *group, int64_t *data, size_t round)
{
    fill(group, data, round);
    const ls_status status =
        ls_all_reduce(group, data, data, COUNT, LS_I64, LS_REDUCE_SUM);
    for (size_t i = 0; i < COUNT && status == LS_OK; i++)
        CHECK(data[i] == sum(i, round));
    return status;
}

static ls_status all_gather(ls_group *group, int64_t *data, size_t round)
{
    const int rank = ls_group_rank(group);
    for (size_t i = 0; i < COUNT; i++)
        data[(size_t)rank * COUNT + i] = value(rank, i, round);
    const ls_status status =
        ls_all_gather(group, data + (size_t)rank * COUNT, data, COUNT, LS_I64);
    for (size_t i = 0; i < 2 * COUNT && status == LS_OK; i++)
        CHECK(data[i] == value(i < COUNT ? 0 : 1, i % COUNT, round));
    return status;
}

static ls_status all_to_all(ls_group *group, int64_t *data, size_t round)
{
    const size_t own = (size_t)ls_group_rank(group) * COUNT;
    fill(group, data, round);
    const ls_status status = ls_all_to_all(group, data, data, COUNT, LS_I64);
    for (size_t i = 0; i < 2 * COUNT && status == LS_OK; i++)
        CHECK(data[i] == value(i < COUNT ? 0 : 1, own + i % COUNT, round));
    return status;
}

/* From the rank that is late. */
static ls_status message(ls_group *group, int64_t *data, size_t round)
{
    const bool sends = ls_group_rank(group) == 1;
    fill(group, data, round);
    const ls_status status = sends ? ls_send(group, data, COUNT, LS_I64, 0, 3)
                                   : ls_recv(group, data, COUNT, LS_I64, 1, 3);
    for (size_t i = 0; i < COUNT && status == LS_OK; i++)
        CHECK(data[i] == value(1, i, round));
    return status;
}

static call_fn *const calls[] = {reduce_scatter, all_reduce, all_gather,
                                 all_to_all, message};
enum { CALLS = sizeof(calls) / sizeof(calls[0]) };

/* ---- one rank is late ---------------------------------------------------- */

/* The group of rank 0, which waits, and whether it has given up. */
typedef struct waiter {
    ls_group *group;
    call_fn *call;
    atomic_int given_up;
} waiter;

/* The time that the waiting rank has counted so far. */
static uint64_t counted_ns(const waiter *w)
{
    return __atomic_load_n(&w->group->waiting.clock.ns, __ATOMIC_RELAXED);
}

/* Returns when the other rank has counted 40 s, or does not wait any more. */
static void be_late(ls_group *group, const waiter *w)
{
    while (counted_ns(w) == 0) /* its clock starts with its first wait */
        sched_yield();
    const uint64_t until_ns = counted_ns(w) + LATE_SECONDS * SECOND_NS;
    atomic_store(&clock_step_ns, LSI_SLICE_NS / 2);
    while (counted_ns(w) < until_ns && atomic_load(&w->given_up) == 0) {
        lsi_wake_all(group);
        sched_yield();
    }
    atomic_store(&clock_step_ns, 0);
}

static void wait_in_patience(ls_group *group, void *argument)
{
    int64_t data[2 * COUNT];
    waiter *const w = argument;
    CHECK_OK(ls_group_set_timeout(group, 3600));
    if (ls_group_rank(group) == 0)
        w->group = group;
    for (size_t i = 0; i < rounds; i++) {
        CHECK_OK(ls_barrier(group));
        if (ls_group_rank(group) == 1)
            be_late(group, w);
        CHECK_OK(calls[i % CALLS](group, data, i));
    }
}

static void a_late_rank_is_within_the_timeout(void **state)
{
    waiter w = {0};
    (void)state;
    clock_reset();
    run_threads(2, wait_in_patience, &w);
    clock_reset();
}

/* ---- the clock counts ---------------------------------------------------- */

static void wait_for_thirty_seconds(ls_group *group, void *argument)
{
    int64_t data[2 * COUNT];
    waiter *const w = argument;
    CHECK_OK(ls_group_set_timeout(group, 30));
    if (ls_group_rank(group) == 0)
        w->group = group;
    CHECK_OK(ls_barrier(group));
    if (ls_group_rank(group) == 1) {
        be_late(group, w);
        return;
    }
    CHECK(w->call(group, data, 0) == LS_ERR_TIMEOUT);
    atomic_store(&w->given_up, 1);
}

static void a_shorter_timeout_ends_the_wait(void **state)
{
    (void)state;
    for (int i = 0; i < CALLS; i++) {
        waiter w = {.call = calls[i]};
        clock_reset();
        run_threads(2, wait_for_thirty_seconds, &w);
    }
    clock_reset();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_late_rank_is_within_the_timeout),
        cmocka_unit_test(a_shorter_timeout_ends_the_wait),
    };
    rounds = rounds_of(argc, argv);
    return cmocka_run_group_tests_name("jax_40831", tests, NULL, NULL);
}
