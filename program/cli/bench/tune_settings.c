#include "cli/bench/tune_settings.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/error.h"
#include "comm/coll/window.h"
#include "comm/core/wait.h"
#include "comm/node/transport.h"
#include "comm/state/channels.h"
#include "comm/state/state.h"
#include "report/stats.h"

enum { RUNS = 25, WAKES = 15, LATE_US = 500 };

/* ---- the window ---------------------------------------------------------- */

static const int windows[] = {32 << 10, 64 << 10, 128 << 10, 256 << 10};

enum { WINDOWS = sizeof(windows) / sizeof(windows[0]) };

/* Another size must be better by more than measuring varies. */
#define WORTH_A_CHANGE 0.98

/* An all-gather and an all-reduce of staged data, in one time. */
static ls_status time_exchange(ls_group *group, float *send, float *recv,
                               double *seconds)
{
    const size_t n = LSI_TUNE_SETTINGS_BYTES / sizeof(float);
    LS_TRY(ls_barrier(group));
    const double begin = lsi_clock_seconds();
    LS_TRY(ls_all_gather(group, send, recv, n / (size_t)ls_group_size(group),
                         LS_F32));
    LS_TRY(ls_all_reduce(group, send, recv, n, LS_F32, LS_REDUCE_SUM));
    *seconds = lsi_clock_seconds() - begin;
    return ls_all_reduce(group, seconds, seconds, 1, LS_F64, LS_REDUCE_MAX);
}

static ls_status time_window(ls_group *group, int window, float *buffers[2],
                             double *median)
{
    char line[128];
    double runs[RUNS];
    lsi_stats stats;
    snprintf(line, sizeof(line),
             "window:%d,all_reduce:1k-inf:staged,all_gather:1k-inf:staged",
             window);
    LS_TRY(ls_group_select(group, line));
    LS_TRY(time_exchange(group, buffers[0], buffers[1], &runs[0]));
    for (int i = 0; i < RUNS; i++)
        LS_TRY(time_exchange(group, buffers[0], buffers[1], &runs[i]));
    LS_TRY(lsi_stats_of(runs, RUNS, &stats));
    *median = stats.median;
    return LS_OK;
}

/*
 * The least of four medians each, as times drift: two with stores past the
 * caches and two with ordinary ones.
 */
static ls_status choose_window(ls_group *group, float *buffers[2], int *window)
{
    bool *const past_caches = &group->memory.node->past_caches;
    double times[WINDOWS] = {INFINITY, INFINITY, INFINITY, INFINITY}, median;
    for (int i = 0; i < 4 * WINDOWS; i++) {
        if (i % WINDOWS == 0)
            *past_caches = !*past_caches;
        LS_TRY(time_window(group, windows[i % WINDOWS], buffers, &median));
        times[i % WINDOWS] = fmin(times[i % WINDOWS], median);
    }
    double least = INFINITY;
    int best = 0;
    for (int i = 0; i < WINDOWS; i++) {
        const bool usual = (size_t)windows[i] == lsi_window_usual(group);
        const double time = usual ? times[i] * WORTH_A_CHANGE : times[i];
        if (time < least) {
            least = time;
            best = i;
        }
    }
    *window = windows[best];
    return LS_OK;
}

/* ---- spinning ------------------------------------------------------------ */

static void work(double seconds)
{
    const double begin = lsi_clock_seconds();
    while (lsi_clock_seconds() - begin < seconds)
        lsi_cpu_relax();
}

/*
 * The time from the arrival of rank 0, which is late, to the return of the rank
 * that returns last: all others sleep by then, and must wake up.
 */
static ls_status time_wake(ls_group *group, double *seconds)
{
    double arrived;
    LS_TRY(ls_barrier(group));
    if (ls_group_rank(group) == 0)
        work(LATE_US * 1e-6);
    arrived = lsi_clock_seconds();
    LS_TRY(ls_barrier(group));
    const double left = lsi_clock_seconds();
    LS_TRY(ls_broadcast(group, &arrived, 1, LS_F64, 0));
    *seconds = left - arrived;
    return ls_all_reduce(group, seconds, seconds, 1, LS_F64, LS_REDUCE_MAX);
}

/* Rank 0's number counts, as all ranks must have the same. */
static ls_status choose_spins(ls_group *group, int32_t *spins)
{
    double wakes[WAKES];
    lsi_stats stats;
    for (int i = 0; i < WAKES; i++)
        LS_TRY(time_wake(group, &wakes[i]));
    LS_TRY(lsi_stats_of(wakes, WAKES, &stats));
    *spins = lsi_looks_in((uint64_t)(stats.median * 1e9));
    return ls_broadcast(group, spins, 1, LS_I32, 0);
}

ls_status lsi_tune_settings(ls_group *group, float *send, float *recv,
                            char *text, size_t bytes)
{
    float *buffers[2] = {send, recv};
    int window;
    int32_t spins;
    *text = '\0';
    if (group->memory.few_cpus || lsi_spans_nodes(group) ||
        ls_group_size(group) == 1)
        return LS_OK;
    LS_TRY(choose_window(group, buffers, &window));
    LS_TRY(choose_spins(group, &spins));
    snprintf(text, bytes, "window:%dk,spins:%d,", window >> 10, (int)spins);
    return LS_OK;
}
