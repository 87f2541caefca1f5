/*
 * A rank sleeps on the bell of its group (bell.h). A rank that also has
 * something in flight in other groups sleeps on all their bells at once.
 * Kernels before 5.16 do not have this call, and filters may reject it. Then
 * the rank sleeps for short times and polls.
 */
#include "comm/core/sleep.h"

#include <assert.h>
#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/newer_kernel.h"
#include "comm/core/coprogress.h"
#include "comm/core/engine.h"
#include "comm/state/bell.h"
#include "comm/state/channels.h"

enum { MOST_BELLS = 32 };

/*
 * Longest sleep where a rank cannot sleep on several bells, or no bell rings.
 */
#define SLEEP_NS ((uint64_t)1000 * 1000)

/* The timeouts of these calls are points in time. */
static struct timespec after(uint64_t ns)
{
    const uint64_t until = lsi_clock_ns() + ns;
    return (struct timespec){(time_t)(until / 1000000000),
                             (long)(until % 1000000000)};
}

/* Nanoseconds since the bell was rung: how long a woken rank has got no CPU. */
static uint64_t late_since_rung(const ls_group *group)
{
    const uint64_t rung = atomic_load(&group->memory.header->rung_ns);
    const uint64_t now = lsi_clock_ns();
    return now > rung ? now - rung : 0;
}

static uint64_t wait_for_bell(ls_group *group, uint64_t ns)
{
    const struct timespec until = after(ns);
    const long woken = syscall(SYS_futex, &group->memory.header->bell,
                               FUTEX_WAIT_BITSET, group->waiting.sleeper.bell,
                               &until, NULL, lsi_bell_bit(group->rank));
    return woken == 0 ? late_since_rung(group) : 0;
}

static struct futex_waitv bell_of(const ls_group *group)
{
    return (struct futex_waitv){
        .val = group->waiting.sleeper.bell,
        .uaddr = (uint64_t)(uintptr_t)&group->memory.header->bell,
        .flags = FUTEX_32};
}

/* False if the kernel cannot do it. The group's own bell is the first. */
static bool wait_for_bells(const ls_group *group, const ls_group *others,
                           uint64_t ns, uint64_t *late_ns)
{
    static atomic_bool unknown;
    struct futex_waitv bells[MOST_BELLS] = {bell_of(group)};
    const struct timespec until = after(ns);
    unsigned n = 1;
    for (; others != NULL && n < MOST_BELLS;
         others = others->coprogress.next_borrowed)
        bells[n++] = bell_of(others);
    if (others != NULL || atomic_load(&unknown))
        return false;
    const long woken =
        syscall(SYS_futex_waitv, bells, n, 0, &until, CLOCK_MONOTONIC);
    if (woken < 0 && (errno == ENOSYS || errno == EPERM))
        atomic_store(&unknown, true);
    *late_ns = woken == 0 ? late_since_rung(group) : 0;
    return !atomic_load(&unknown);
}

/* Whether a group spans nodes: no bell rings for messages from other nodes. */
static bool spans_nodes(const ls_group *others)
{
    while (others != NULL && !lsi_spans_nodes(others))
        others = others->coprogress.next_borrowed;
    return others != NULL;
}

static uint64_t wait_for_any(ls_group *group, const ls_group *others,
                             uint64_t ns)
{
    uint64_t late_ns = 0;
    if (lsi_coprogress_wanted(others))
        return 0;
    if (ns > SLEEP_NS && spans_nodes(others))
        ns = SLEEP_NS;
    if (!wait_for_bells(group, others, ns, &late_ns))
        late_ns = wait_for_bell(group, ns < SLEEP_NS ? ns : SLEEP_NS);
    return late_ns;
}

/*
 * A rank announces its sleep, looks once more, and sleeps only if nothing has
 * moved: either a peer sees the announcement or its progress is seen here.
 */
static void announce(ls_group *group)
{
    assert(atomic_load(&lsi_member_of(group, group->rank)->asleep) == 0);
    group->waiting.sleeper =
        (lsi_sleeper){.bell = atomic_load(&group->memory.header->bell),
                      .activity = group->activity,
                      .for_cells = group->queue.waits_completed};
    atomic_fetch_add(&group->memory.header->sleepers, 1);
    if (group->waiting.sleeper.for_cells)
        atomic_fetch_add(&group->memory.header->cell_waiters, 1);
    atomic_store(&lsi_member_of(group, group->rank)->asleep, 1);
}

static bool is_quiet(const ls_group *group)
{
    return group->activity == group->waiting.sleeper.activity &&
           group->queue.waits_completed == group->waiting.sleeper.for_cells;
}

static void retract(ls_group *group)
{
    assert(atomic_load(&group->memory.header->sleepers) > 0);
    atomic_store(&lsi_member_of(group, group->rank)->asleep, 0);
    if (group->waiting.sleeper.for_cells)
        atomic_fetch_sub(&group->memory.header->cell_waiters, 1);
    atomic_fetch_sub(&group->memory.header->sleepers, 1);
}

static ls_status sleep_alone(ls_group *group, uint64_t ns, uint64_t *late_ns)
{
    announce(group);
    const ls_status status = lsi_progress(group);
    if (status == LS_OK && is_quiet(group))
        *late_ns = wait_for_bell(group, ns);
    retract(group);
    return status;
}

static ls_status sleep_with(ls_group *group, ls_group *others, uint64_t ns,
                            uint64_t *late_ns)
{
    bool quiet = true;
    announce(group);
    for (ls_group *other = others; other != NULL;
         other = other->coprogress.next_borrowed)
        announce(other);
    const ls_status status = lsi_progress(group);
    (void)lsi_coprogress_run(others);
    for (const ls_group *other = others; other != NULL;
         other = other->coprogress.next_borrowed)
        quiet = quiet && is_quiet(other);
    if (status == LS_OK && quiet && is_quiet(group))
        *late_ns = wait_for_any(group, others, ns);
    for (ls_group *other = others; other != NULL;
         other = other->coprogress.next_borrowed)
        retract(other);
    retract(group);
    return status;
}

ls_status lsi_sleep(ls_group *group, bool coprogress, uint64_t ns,
                    uint64_t *late_ns)
{
    *late_ns = 0;
    if (!coprogress)
        return sleep_alone(group, ns, late_ns);
    ls_group *others = lsi_coprogress_borrow(group);
    const ls_status status = sleep_with(group, others, ns, late_ns);
    lsi_coprogress_return(others);
    return status;
}
