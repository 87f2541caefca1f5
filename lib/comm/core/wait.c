/*
 * Three ways to wait, from eager to patient.
 *
 * Spinning is right while the awaited peer runs on another CPU and answers in
 * microseconds; it is wrong when the peer needs this CPU. So with a CPU for
 * each rank, a rank spins as long as that has paid more often than not. One
 * late peer, whose program did something else, must not make the rank sleep,
 * and be woken, in all later waits.
 *
 * With more ranks than CPUs, the fastest way to let a peer run is an immediate
 * sched_yield: four looks before it took 8% of the time of a barrier. But if
 * another program gets the CPU, it keeps it for milliseconds.
 *
 * Sleeping (sleep.c) always works: the kernel runs a rank soon after it is
 * woken, and moves it to an idle CPU. It runs late if it has used up its share
 * of a CPU for which others wait, too. Then each microsecond of spinning is one
 * that the rank does not get when it is woken.
 *
 * So where other processes want the CPUs, ranks hardly look before they sleep.
 * A rank detects this by the cost: a yield that returns late, or a late run
 * after it was woken. It then sleeps early in a number of waits, and in twice
 * that number each time that it happens again. Each spin or yield that pays
 * takes one wait away.
 */
#include "comm/core/wait.h"

#include <assert.h>
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
#include "observe/spans.h"

enum {
    /* In sleeps and wake-ups, lsi_select_table.spins: */
    ALONE = 12,
    UNSURE = 6,
    FEW_SPINS = 2,
    LONG_SPINS = 100000, /* milliseconds; see choose_spins */
    TRUST = 8,           /* most trust in spinning: + 1 if it paid */
    DISTRUST = 2,        /* trust lost by each spin in vain */
    FIRST_RETRY = 8,     /* waits until a spin is tried again; doubles */
    LAST_RETRY = 512,
    YIELDS = 250,       /* yields of one wait */
    LATE_NS = 1000000,  /* more than a peer needs until its next wait */
    FIRST_BACKOFF = 16, /* waits */
    LAST_BACKOFF = 4096
};

/*
 * Ticks between two looks at the clock: a fraction of a millisecond to a few.
 */
enum { POLL_TICKS = 1 << 18 };

/* Sleeps between looks for messages from other nodes, which wake no rank. */
#define FIRST_SLEEP_NS ((uint64_t)20 * 1000)
#define LAST_SLEEP_NS  ((uint64_t)1000 * 1000)

/* Time after which a rank tells other nodes which rank it waits for. */
#define ANNOUNCE_NS ((uint64_t)500 * 1000 * 1000)

/* Time after SIGTERM for which a rank looks for the reason. */
#define SIGTERM_NS ((uint64_t)500 * 1000 * 1000)

/*
 * The time of a sleep and a wake-up that is assumed without a measurement. On
 * two machines it was 5 and 19 us.
 */
#define WAKE_NS 5000

int lsi_looks_in(uint64_t ns)
{
    enum { PAUSES = 64, ROUNDS = 3 };
    uint64_t least = UINT64_MAX;
    for (int round = 0; round < ROUNDS; round++) {
        const uint64_t begin = lsi_clock_ns();
        for (int i = 0; i < PAUSES; i++)
            lsi_cpu_relax();
        const uint64_t taken = lsi_clock_ns() - begin;
        least = taken < least ? taken : least;
    }
    const uint64_t looks = PAUSES * ns / (least + 1);
    return looks < LSI_LEAST_SPINS  ? LSI_LEAST_SPINS
           : looks > LSI_MOST_SPINS ? LSI_MOST_SPINS
                                    : (int)looks;
}

static int spins_of(const ls_group *group)
{
    const int tuned = group->select->spins;
    return tuned > 0 ? tuned : group->waiting.spins;
}

void lsi_begin_to_wait(ls_group *group)
{
    group->waiting.crowded = true;
    group->waiting.late = INT_MAX;
}

void lsi_learn_to_wait(ls_group *group)
{
    const lsi_rank_cpus found = lsi_rank_cpus_of(group);
    const int available = lsi_cpus_available(); /* includes the quota */
    /* A look that asks MPI takes as long as a yield or longer. */
    group->waiting.crowded =
        lsi_spans_nodes(group) ||
        (available < found.own ? available : found.together) <
            group->channels.local->size;
    group->waiting.bound = found.disjoint && !group->waiting.crowded;
    group->waiting.spins = lsi_looks_in(WAKE_NS);
    group->waiting.trust = TRUST;
    group->waiting.retry = FIRST_RETRY;
    group->waiting.late = 0;
    group->waiting.backoff = FIRST_BACKOFF;
}

/* Whether the scheduler has put another rank on this CPU, when it last waited.
 */
static bool shares_a_cpu(const ls_group *group)
{
    const ls_group *const here = group->channels.local;
    const int own = atomic_load_explicit(
        &lsi_member_of(here, here->rank)->ran_on, memory_order_relaxed);
    for (int r = 0; r < here->size; r++) {
        if (r != here->rank &&
            own == atomic_load_explicit(&lsi_member_of(here, r)->ran_on,
                                        memory_order_relaxed))
            return true;
    }
    return false;
}

/* Publishes 1 + this rank's CPU; 0 is a rank that has never waited. */
static void publish_cpu(ls_group *group)
{
    const ls_group *const here = group->channels.local;
    atomic_store_explicit(&lsi_member_of(here, here->rank)->ran_on,
                          1 + sched_getcpu(), memory_order_relaxed);
}

/*
 * If spins were in vain, the peer probably needs this CPU. Even with enough
 * CPUs the scheduler may have put both ranks on one, and leaves them there as
 * long as they take turns. Then hardly spin, but now and then spin for so long
 * that the scheduler sees two runnable ranks and moves one. Ranks that are
 * bound to separate CPUs need none of this.
 */
static int choose_spins(ls_group *group)
{
    const int spins = spins_of(group);
    if (group->waiting.bound)
        return ALONE * spins;
    publish_cpu(group);
    if (group->waiting.trust == TRUST)
        return ALONE * spins;
    if (group->waiting.trust > 0)
        return (shares_a_cpu(group) ? UNSURE : ALONE) * spins;
    if (++group->waiting.waits < group->waiting.retry)
        return FEW_SPINS;
    group->waiting.waits = 0;
    if (group->waiting.retry < LAST_RETRY)
        group->waiting.retry *= 2;
    return LONG_SPINS;
}

static void choose(ls_group *group, lsi_patience *patience)
{
    assert(patience->looks == 0 && patience->spins == 0);
    const bool late = group->waiting.late > 0;
    const bool crowded = group->waiting.crowded;
    if (late)
        group->waiting.late--;
    patience->yields = crowded && !late ? YIELDS : 0;
    patience->spins = crowded ? 0
                      : late  ? spins_of(group)
                              : choose_spins(group);
}

/* Learns from the time for which this rank was kept waiting for a CPU. */
static void learn(ls_group *group, uint64_t late_ns)
{
    if (late_ns < LATE_NS)
        return;
    if (group->waiting.late < group->waiting.backoff)
        group->waiting.late = group->waiting.backoff;
    if (group->waiting.backoff < LAST_BACKOFF)
        group->waiting.backoff *= 2;
}

static void yield(ls_group *group, lsi_patience *patience)
{
    const uint64_t before = lsi_clock_ns();
    sched_yield();
    const uint64_t away = lsi_clock_ns() - before;
    learn(group, away);
    if (away >= LATE_NS)
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

/* Shortens a sleep to end at `until_ns`; 0: no limit. */
static uint64_t shorten(uint64_t sleep_ns, uint64_t until_ns)
{
    const uint64_t now = lsi_clock_ns();
    if (until_ns == 0 || until_ns >= now + sleep_ns)
        return sleep_ns;
    return until_ns > now ? until_ns - now : 1;
}

/*
 * Something has moved: resets the patience, and learns from the time it took.
 */
static void reward(ls_group *group, lsi_patience *patience)
{
    if (patience->looks == 0 && patience->began_ns == 0)
        return; /* it has not waited */
    if (patience->looks > FEW_SPINS && patience->looks < patience->spins) {
        group->waiting.trust += group->waiting.trust < TRUST;
        group->waiting.retry = FIRST_RETRY;
    }
    if (patience->looks > 0 &&
        patience->looks < patience->spins + patience->yields &&
        group->waiting.backoff > FIRST_BACKOFF)
        group->waiting.backoff--;
    if (patience->began_ns != 0)
        lsi_awaited_forget(group, patience->announced);
    lsi_awaited_hide(patience);
    *patience = (lsi_patience){0};
}

static uint64_t announce_after(uint64_t timeout)
{
    return timeout / 2 < ANNOUNCE_NS ? timeout / 2 : ANNOUNCE_NS;
}

/* Checks whether the peers are alive, and whether time is left. */
static ls_status check_wait(ls_group *group, lsi_patience *patience,
                            uint64_t now, bool got_sigterm)
{
    const uint64_t timeout =
        (group->dup_of != NULL ? group->dup_of : group)->waiting.timeout_ns;
    const uint64_t waited = now - patience->began_ns;
    const bool late = timeout != 0 && waited >= timeout;
    patience->checked_ns = now;
    if (!got_sigterm && lsi_arrivals_move(group))
        return LS_OK;
    const ls_status status = lsi_check_peers(group);
    if (status != LS_OK || late || got_sigterm)
        lsi_awaited_hide(patience);
    LS_TRY(status);
    if (late || got_sigterm)
        return lsi_time_out(group, !late);
    lsi_awaited_note(group);
    lsi_awaited_show(group, patience);
    /*
     * All waiting ranks give up at about the same time, and should know then
     * which ranks the others wait for. A rank that got no CPU for most of its
     * wait must tell, too, so the time is that of the plain clock.
     */
    if (timeout != 0 && !patience->announced &&
        lsi_clock_ns() - patience->since_ns >= announce_after(timeout)) {
        patience->announced = true;
        lsi_channels_announce_awaits(group);
    }
    return LS_OK;
}

/*
 * Several threads may wait for a group in turn, and their clocks are
 * independent.
 */
static uint64_t time_of(ls_group *group)
{
    return lsi_suspending_clock_read(&group->waiting.clock, lsi_clock_ns());
}

static void begin(lsi_patience *patience, uint64_t now)
{
    assert(patience->began_ns == 0);
    patience->began_ns = patience->checked_ns = now;
    patience->since_ns = lsi_clock_ns();
}

static ls_status check_when_due(ls_group *group, lsi_patience *patience,
                                uint64_t now)
{
    uint64_t sigterm_ns = 0;
    assert(patience->began_ns != 0 && now >= patience->checked_ns);
    const bool sigterm =
        lsi_spans_nodes(group) && lsi_sigterm_received(&sigterm_ns);
    if (!sigterm && now - patience->checked_ns < LSI_SLICE_NS)
        return LS_OK;
    return check_wait(group, patience, now, sigterm_ns >= SIGTERM_NS);
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

/* This wait's spins were in vain. */
static void distrust(ls_group *group, const lsi_patience *patience)
{
    int *const trust = &group->waiting.trust;
    if (patience->spins > spins_of(group))
        *trust = *trust > DISTRUST ? *trust - DISTRUST : 0;
}

/*
 * Called when lsi_progress moved nothing: spins a little, yields, later sleeps
 * until a peer does something, but no longer than until a time of the clock (0:
 * never). Moves the other groups of this thread, too. Returns an error if a
 * peer is gone or time is up.
 */
static ls_status pause_until(ls_group *group, lsi_patience *patience,
                             uint64_t until_ns)
{
    if (patience->looks == 0) {
        lsi_record_wait(group);
        choose(group, patience);
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
    const uint64_t now = time_of(group);
    if (patience->began_ns == 0) {
        begin(patience, now);
        distrust(group, patience);
        lsi_record_long_wait(group);
    }
    LS_TRY(check_when_due(group, patience, now));
    if (moved)
        return LS_OK;
    uint64_t late_ns = 0;
    const uint64_t sleep_ns = choose_sleep(group, now - patience->began_ns);
    const ls_status status = lsi_sleep(group, patience->coprogress,
                                       shorten(sleep_ns, until_ns), &late_ns);
    if (!group->waiting.crowded)
        learn(group, late_ns); /* yields show the same of a computing peer */
    return status;
}

/* ---- testing instead of waiting ------------------------------------------ */

void lsi_polling_over(ls_group *group)
{
    if (group->waiting.polling.patience.began_ns != 0)
        reward(group, &group->waiting.polling.patience);
}

/*
 * Reading the clock costs as much as all other work here, so ticks decide
 * whether to look.
 */
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
    const uint64_t now = time_of(group);
    if (patience->began_ns == 0)
        begin(patience, now);
    return check_when_due(group, patience, now);
}

/* ---- until it is done ---------------------------------------------------- */

static bool is_set(const void *flag)
{
    return *(const bool *)flag;
}

/*
 * Until a time of the clock; 0: never. Inlined, so that a wait for one flag
 * calls no function to look at it.
 */
__attribute__((always_inline)) static inline ls_status
wait_until(ls_group *group, lsi_reached_fn *reached, const void *goal,
           uint64_t until_ns, lsi_patience *patience)
{
    for (;;) {
        const uint64_t activity = group->activity;
        ls_status status = lsi_progress(group);
        if (status == LS_OK && !reached(goal) && group->activity == activity)
            status = pause_until(group, patience, until_ns);
        if (reached(goal)) {
            reward(group, patience);
            return LS_OK;
        }
        if (status != LS_OK) {
            lsi_awaited_hide(patience);
            return status;
        }
        if (group->activity != activity)
            reward(group, patience);
        if (until_ns != 0 && lsi_clock_ns() >= until_ns)
            return LS_IN_PROGRESS;
    }
}

ls_status lsi_wait_for(ls_group *group, const bool *done)
{
    lsi_patience patience = {0};
    LSI_SPAN(WAIT, "wait for ranks", 0, 0);
    return wait_until(group, is_set, done, 0, &patience);
}

static uint64_t end_of(double seconds)
{
    return lsi_clock_ns() + 1 + (uint64_t)(seconds * 1e9);
}

/*
 * As with tests, patience lasts over calls, so that the timeout of a peer
 * counts.
 */
ls_status lsi_wait_seconds(ls_group *group, const bool *done, double seconds)
{
    return wait_until(group, is_set, done, end_of(seconds),
                      &group->waiting.polling.patience);
}

ls_status lsi_wait_seconds_until(ls_group *group, lsi_reached_fn *reached,
                                 const void *goal, double seconds)
{
    return wait_until(group, reached, goal, end_of(seconds),
                      &group->waiting.polling.patience);
}

ls_status lsi_collective_complete(lsi_collective *op)
{
    lsi_coprogress_take(op->group);
    LS_TRY(lsi_collective_submit(op));
    const ls_status status = lsi_wait_for(op->group, &op->done);
    assert(status != LS_OK || op->state == LSI_COLLECTIVE_IDLE);
    if (status == LS_OK)
        return op->status;
    lsi_collective_withdraw(op);
    return status;
}
