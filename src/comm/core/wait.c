/*
 * Three ways to wait, from eager to patient.
 *
 * Spinning is right while the awaited peer runs on another CPU and answers in
 * microseconds; it is wrong when the peer needs this CPU. So a rank spins if
 * there is a CPU for each rank, as long as that has paid lately.
 *
 * With more ranks than CPUs, the fastest way to let a peer run is sched_yield,
 * at once: four looks before it took 8% of the time of a barrier. But if
 * another program gets the CPU, it keeps it for milliseconds; so a yield that
 * takes long stops yielding for a good while.
 *
 * Sleeping (sleep.c) always works: the kernel runs a rank soon after it is
 * woken, and moves it to an idle CPU.
 */
#include "comm/core/wait.h"

#include <limits.h>
#include <sched.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/cpus.h"
#include "base/error.h"
#include "base/suspending_clock.h"
#include "comm/core/coprogress.h"
#include "comm/core/engine.h"
#include "comm/core/peers.h"
#include "comm/core/sleep.h"
#include "comm/health/awaited.h"
#include "comm/health/recorder.h"
#include "comm/health/sigterm.h"
#include "comm/node/rank_cpus.h"
#include "comm/state/channels.h"

enum {
    SPINS_ALONE = 500, /* some 30 microseconds */
    FEW_SPINS = 2,
    LONG_SPINS = 100000, /* some milliseconds: see choose_spins */
    FIRST_RETRY = 8,     /* waits until a spin is tried again; doubles */
    LAST_RETRY = 512,
    YIELDS = 250,       /* of one wait */
    FIRST_BACKOFF = 16, /* waits without yielding, after a long one; doubles */
    LAST_BACKOFF = 4096,
    LONG_YIELD_NS = 1000000 /* what no peer needs to get to its next wait */
};

/* A fraction of a millisecond, or a few: between two looks at the clock. */
enum { POLL_TICKS = 1 << 18 };

/* Nothing wakes a rank when a message from another node has come. */
#define FIRST_SLEEP_NS ((uint64_t)20 * 1000)
#define LAST_SLEEP_NS  ((uint64_t)1000 * 1000)

/* A rank that has waited for so long tells other nodes for whom. */
#define TELL_NS ((uint64_t)500 * 1000 * 1000)

/* After SIGTERM a rank looks for so long for the reason. */
#define SIGTERM_NS ((uint64_t)500 * 1000 * 1000)

void lsi_begin_to_wait(ls_group *group)
{
    group->waiting.crowded = true;
    group->waiting.waits_without_yield = INT_MAX;
}

void lsi_learn_to_wait(ls_group *group)
{
    const lsi_rank_cpus found = lsi_rank_cpus_of(group);
    const int available = lsi_cpus_available(); /* knows the quota, too */
    /* A look that asks MPI takes as long as a yield or longer. */
    group->waiting.crowded =
        lsi_spans_nodes(group) ||
        (available < found.own ? available : found.together) <
            group->channels.local->size;
    group->waiting.bound = found.disjoint && !group->waiting.crowded;
    group->waiting.spinning_pays = true;
    group->waiting.retry = FIRST_RETRY;
    group->waiting.waits_without_yield = 0;
    group->waiting.backoff = FIRST_BACKOFF;
}

/*
 * If the last spin was in vain, the peer probably needs this CPU: even where
 * there are enough, the scheduler may have put both on one, and it leaves them
 * there as long as they take turns. Then hardly spin, but try again now and
 * then, for so long that the scheduler sees two that want to run and moves one.
 * Ranks that are bound to CPUs of their own need none of this.
 */
static int choose_spins(ls_group *group)
{
    if (group->waiting.crowded)
        return 0;
    if (group->waiting.spinning_pays || group->waiting.bound)
        return SPINS_ALONE;
    if (++group->waiting.waits < group->waiting.retry)
        return FEW_SPINS;
    group->waiting.waits = 0;
    if (group->waiting.retry < LAST_RETRY)
        group->waiting.retry *= 2;
    return LONG_SPINS;
}

static int choose_yields(ls_group *group)
{
    if (!group->waiting.crowded)
        return 0;
    if (group->waiting.waits_without_yield == 0)
        return YIELDS;
    group->waiting.waits_without_yield--;
    return 0;
}

/*
 * A yield that takes long went to another program, or a peer that computes. The
 * former come again, and each time ranks sleep for longer instead; the latter
 * is over at once, and each yield that pays takes some of the backoff away.
 */
static void yield(ls_group *group, lsi_patience *patience)
{
    const uint64_t before = lsi_clock_ns();
    sched_yield();
    if (lsi_clock_ns() - before < LONG_YIELD_NS)
        return;
    group->waiting.waits_without_yield = group->waiting.backoff;
    if (group->waiting.backoff < LAST_BACKOFF)
        group->waiting.backoff *= 2;
    patience->yields = 0;
}

/* In proportion to the wait so far, so that little is lost by looking late. */
static uint64_t choose_sleep(const ls_group *group, uint64_t waited_ns)
{
    const uint64_t sleep_ns = waited_ns / 8;
    if (!lsi_spans_nodes(group))
        return LSI_SLICE_NS;
    if (sleep_ns < FIRST_SLEEP_NS)
        return FIRST_SLEEP_NS;
    return sleep_ns < LAST_SLEEP_NS ? sleep_ns : LAST_SLEEP_NS;
}

void lsi_patience_rewarded(ls_group *group, lsi_patience *patience)
{
    if (patience->looks > FEW_SPINS && patience->looks < patience->spins) {
        group->waiting.spinning_pays = true;
        group->waiting.retry = FIRST_RETRY;
    }
    if (patience->looks > patience->spins && patience->yields != 0 &&
        group->waiting.backoff > FIRST_BACKOFF)
        group->waiting.backoff--;
    if (patience->began_ns != 0)
        lsi_awaited_forget(group, patience->told);
    *patience = (lsi_patience){0};
}

static uint64_t tell_after(uint64_t timeout)
{
    return timeout / 2 < TELL_NS ? timeout / 2 : TELL_NS;
}

/* Whether the peers live, and whether there is time left. */
static ls_status look_around(ls_group *group, lsi_patience *patience,
                             uint64_t now, bool told_to_end)
{
    const uint64_t timeout =
        (group->dup_of != NULL ? group->dup_of : group)->waiting.timeout_ns;
    const uint64_t waited = now - patience->began_ns;
    const bool late = timeout != 0 && waited >= timeout;
    patience->checked_ns = now;
    LS_TRY(lsi_check_peers(group));
    if (late || told_to_end)
        return lsi_time_out(group, !late);
    lsi_awaited_note(group);
    /*
     * All that wait give up at about the same time, and should know whom for,
     * also from one that has got no CPU for most of it: so by the clock.
     */
    if (timeout != 0 && !patience->told &&
        lsi_clock_ns() - patience->since_ns >= tell_after(timeout)) {
        patience->told = true;
        lsi_channels_tell_awaits(group);
    }
    return LS_OK;
}

static void begin(lsi_patience *patience, uint64_t now)
{
    patience->began_ns = patience->checked_ns = now;
    patience->since_ns = lsi_clock_ns();
}

static ls_status look(ls_group *group, lsi_patience *patience, uint64_t now)
{
    uint64_t told_for = 0;
    const bool told = lsi_spans_nodes(group) && lsi_sigterm_told(&told_for);
    if (!told && now - patience->checked_ns < LSI_SLICE_NS)
        return LS_OK;
    return look_around(group, patience, now, told_for >= SIGTERM_NS);
}

/* Moves the other groups of this thread, if there are any. */
static bool move_others(ls_group *group, lsi_patience *patience)
{
    if (!patience->coprogress)
        return false;
    const bool moved = lsi_coprogress_move(group);
    patience->coprogress = lsi_coprogress_due(group);
    return moved;
}

ls_status lsi_pause(ls_group *group, lsi_patience *patience)
{
    if (patience->looks == 0) {
        lsi_record_wait(group);
        patience->spins = choose_spins(group);
        patience->yields = choose_yields(group);
        patience->coprogress = lsi_coprogress_due(group);
    }
    const bool moved = move_others(group, patience);
    if (patience->looks < patience->spins + patience->yields) {
        const bool spins = patience->looks++ < patience->spins;
        if (!moved && spins)
            lsi_cpu_relax();
        else if (!moved)
            yield(group, patience);
        return LS_OK;
    }
    group->waiting.spinning_pays = false;
    const uint64_t now = lsi_suspending_clock_ns();
    if (patience->began_ns == 0) {
        begin(patience, now);
        lsi_record_long_wait(group);
    }
    LS_TRY(look(group, patience, now));
    if (moved)
        return LS_OK;
    return lsi_sleep(group, patience->coprogress,
                     choose_sleep(group, now - patience->began_ns));
}

/* ---- testing instead of waiting ------------------------------------------ */

void lsi_polling_over(ls_group *group)
{
    if (group->waiting.polling.patience.began_ns != 0)
        lsi_patience_rewarded(group, &group->waiting.polling.patience);
}

/* The clock costs as much as all the rest, so ticks say whether to look. */
ls_status lsi_poll(ls_group *group)
{
    lsi_polling *polling = &group->waiting.polling;
    lsi_patience *patience = &polling->patience;
    if (lsi_coprogress_due(group))
        (void)lsi_coprogress_move(group);
    const uint64_t ticks = lsi_ticks();
    if (polling->activity != group->activity)
        lsi_polling_over(group);
    else if (ticks - polling->ticks < POLL_TICKS)
        return LS_OK;
    polling->activity = group->activity;
    polling->ticks = ticks;
    const uint64_t now = lsi_suspending_clock_ns();
    if (patience->began_ns == 0)
        begin(patience, now);
    return look(group, patience, now);
}

/* ---- until it is done ---------------------------------------------------- */

/* Until a time of the clock; 0: never. */
static ls_status wait_until(ls_group *group, const bool *done,
                            uint64_t until_ns, lsi_patience *patience)
{
    for (;;) {
        const uint64_t activity = group->activity;
        ls_status status = lsi_progress(group);
        if (status == LS_OK && !*done && group->activity == activity)
            status = lsi_pause(group, patience);
        if (*done) {
            lsi_patience_rewarded(group, patience);
            return LS_OK;
        }
        LS_TRY(status);
        if (group->activity != activity)
            lsi_patience_rewarded(group, patience);
        if (until_ns != 0 && lsi_clock_ns() >= until_ns)
            return LS_IN_PROGRESS;
    }
}

ls_status lsi_wait_for(ls_group *group, const bool *done)
{
    lsi_patience patience = {0};
    return wait_until(group, done, 0, &patience);
}

/* As with tests, patience lasts over calls: the time of a peer runs out. */
ls_status lsi_wait_seconds(ls_group *group, const bool *done, double seconds)
{
    const uint64_t until_ns = lsi_clock_ns() + 1 + (uint64_t)(seconds * 1e9);
    return wait_until(group, done, until_ns, &group->waiting.polling.patience);
}

ls_status lsi_collective_complete(lsi_collective *op)
{
    lsi_coprogress_take(op->group);
    LS_TRY(lsi_collective_submit(op));
    LS_TRY(lsi_wait_for(op->group, &op->done));
    return op->status;
}
