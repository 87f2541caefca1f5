#include "comm/coll/copy_probe.h"

#include <math.h>
#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/memory.h"
#include "comm/coll/window.h"
#include "comm/core/agree.h"
#include "comm/node/copy.h"
#include "comm/node/remote.h"
#include "comm/state/channels.h"

/* Some chunks as `staged` has them, and few enough for the time. */
enum { BYTES = 8 * LSI_WINDOW_CHUNK, ROUNDS = 3, LOOKS = 64 };

/* With more ranks than CPUs, all of them wait for turns on the CPUs. */
enum { MOST_CROWDED = 8 };

static const uint64_t limit_ns = 5000000;

/* The beginning of a rank's window, which is zero at first. */
typedef struct mark {
    _Atomic uint64_t step;
    uint64_t data; /* address of what the next rank copies */
} mark;

/* A rank reads from its source, and is read by its reader. */
typedef struct probe {
    ls_group *group;
    int source, reader;
    uint64_t step, deadline;
    unsigned char *data, *copy; /* [BYTES] */
} probe;

/* ---- meeting ------------------------------------------------------------- */

static mark *mark_of(const probe *p, int rank)
{
    return (mark *)(void *)lsi_window(p->group, rank);
}

/* Steps are the chunks of staged data, in two slots behind the mark. */
static unsigned char *slot_of(const probe *p, int rank, size_t chunk)
{
    return lsi_window(p->group, rank) + LSI_PAGE +
           chunk % 2 * (size_t)LSI_WINDOW_CHUNK;
}

static bool is_there(const probe *p, int rank)
{
    return atomic_load_explicit(&mark_of(p, rank)->step,
                                memory_order_acquire) >= p->step;
}

/*
 * Waits for the two neighbours. The operations of a group would wait without
 * end for a rank that has no CPU; a probe gives up.
 */
static bool meet(probe *p)
{
    p->step++;
    atomic_store_explicit(&mark_of(p, p->group->rank)->step, p->step,
                          memory_order_release);
    const bool yields = p->group->memory.few_cpus;
    for (int looks = 0; !is_there(p, p->source) || !is_there(p, p->reader);) {
        if (yields)
            sched_yield();
        else
            lsi_cpu_relax();
        if ((yields || ++looks % LOOKS == 0) && lsi_clock_ns() > p->deadline)
            return false;
    }
    return true;
}

/* ---- the three ways ------------------------------------------------------ */

static bool copy_by_kernel(probe *p)
{
    const lsi_channel_kind *const channel = lsi_channel_to(p->group, p->source);
    return channel->read != NULL &&
           channel->read(p->group, p->source, p->copy,
                         mark_of(p, p->source)->data, BYTES) == 0 &&
           meet(p);
}

static bool copy_by_windows(probe *p)
{
    const size_t chunk = LSI_WINDOW_CHUNK;
    for (size_t k = 0; k < BYTES / chunk; k++) {
        lsi_copy_out(p->group->memory.node, slot_of(p, p->group->rank, k),
                     p->data + k * chunk, chunk);
        if (!meet(p))
            return false;
        memcpy(p->copy + k * chunk, slot_of(p, p->source, k), chunk);
    }
    return meet(p);
}

static bool time_copy(probe *p, bool (*copy)(probe *p), double *ns)
{
    if (!meet(p))
        return false;
    const uint64_t begin = lsi_clock_ns();
    if (!copy(p))
        return false;
    *ns = (double)(lsi_clock_ns() - begin);
    return true;
}

/*
 * Once with data that this rank has just written, which its cache alone holds,
 * and once more. A program may have either, and they differ by a factor of two.
 */
static bool time_round(probe *p, int round, bool (*copy)(probe *p),
                       double *least)
{
    double written, read;
    memset(p->data, round, BYTES);
    if (!time_copy(p, copy, &written) || !time_copy(p, copy, &read))
        return false;
    if (round == 0)
        return true;                       /* which has touched the pages */
    *least = fmin(*least, written + read); /* NAN at first */
    return true;
}

static const lsi_copy_times no_times = {NAN, NAN, NAN};

/* Changes past_caches of the node, of which this is the first group. */
static lsi_copy_times measure(probe *p, bool with_kernel)
{
    bool *const past_caches = &p->group->memory.node->past_caches;
    lsi_copy_times found = no_times;
    for (int round = 0; round <= ROUNDS; round++) {
        *past_caches = false;
        if (!time_round(p, round, copy_by_windows, &found.cached))
            return no_times;
        *past_caches = true;
        if (!time_round(p, round, copy_by_windows, &found.past))
            return no_times;
        if (with_kernel && !time_round(p, round, copy_by_kernel, &found.kernel))
            return no_times;
    }
    return found;
}

/* ---- the answers --------------------------------------------------------- */

/*
 * A movement saves one of two passes by it, a reduction saves none. On a Zen 3
 * the kernel took 0.95 of the windows' time. There `copy` took 0.73 of the time
 * of `staged` for an all-gather of 10 MB. For an all-gather of 1 MB it took
 * 1.15, and for all-reduces of 0.25 to 10 MB 1.2 to 2.
 */
#define FOR_REDUCTIONS (2.0 / 3)

static lsi_copying copying_of(const lsi_copy_times *all)
{
    const double windows = fmin(all->cached, all->past);
    return all->kernel < FOR_REDUCTIONS * windows ? LSI_COPYING_PAYS
           : all->kernel < windows                ? LSI_COPYING_MOVES
                                                  : LSI_COPYING_LOSES;
}

lsi_copy_answer lsi_copy_times_answer(const lsi_copy_times *times, int n,
                                      bool usual)
{
    lsi_copy_times all = {0, 0, 0};
    for (int r = 0; r < n; r++) {
        all.cached += times[r].cached;
        all.past += times[r].past;
        all.kernel += times[r].kernel;
    }
    const bool timed = !isnan(all.cached) && !isnan(all.past);
    return (lsi_copy_answer){
        .past_caches = timed ? all.past < all.cached : usual,
        .copying = timed ? copying_of(&all) : LSI_COPYING_LOSES};
}

/* The memory must stay until all ranks have their answers. */
static lsi_copy_times measure_in(ls_group *group, bool with_kernel,
                                 unsigned char *memory)
{
    const int n = group->size;
    probe p = {.group = group,
               .source = (group->rank + 1) % n,
               .reader = (group->rank + n - 1) % n,
               .deadline = lsi_clock_ns() + limit_ns,
               .data = memory,
               .copy = memory + BYTES};
    mark_of(&p, group->rank)->data = (uint64_t)(uintptr_t)p.data;
    if (with_kernel)
        lsi_remote_admit(group);
    return measure(&p, with_kernel);
}

ls_status lsi_copy_probe(ls_group *group, bool with_kernel,
                         lsi_copy_answer *answer)
{
    const lsi_call call = {.operation = LSI_OP_SELECT};
    const bool crowded = group->memory.few_cpus;
    lsi_copy_times own = no_times, all[LSI_MAX_RANKS];
    void *memory = NULL;
    if (group->size > 1 && (!crowded || group->size <= MOST_CROWDED) &&
        lsi_alloc_zeroed(&memory, 2 * (size_t)BYTES, LS_MEMORY_COMM,
                         "measuring copies") == LS_OK)
        own = measure_in(group, with_kernel && !crowded, memory);
    const ls_status status = lsi_exchange(group, &call, &own, sizeof(own), all);
    lsi_free(memory);
    LS_TRY(status);
    *answer = lsi_copy_times_answer(all, group->size, lsi_cpu_stores_wait());
    group->memory.node->past_caches = answer->past_caches;
    if (answer->copying == LSI_COPYING_LOSES)
        lsi_remote_dismiss(group);
    return LS_OK;
}
