/*
 * The staging windows: two halves, for even and odd steps, so that a rank can
 * fill one while others read the other.
 */
#ifndef LS_COMM_COLL_WINDOW_H
#define LS_COMM_COLL_WINDOW_H

#include "comm/coll/algorithm.h"

/* Bytes of one slot, and how many of them a half has. */
enum { LSI_WINDOW_CHUNK = 64 * 1024, LSI_WINDOW_CHUNKS = 8 };

/*
 * Bytes of a chunk without a tuned one. Two ranks were faster with twice the
 * size. On a Zen 3 an all-reduce of 1 MB took 69 us instead of 86, and 117
 * instead of 123 on CPUs without a common cache. For more ranks it is not
 * measured.
 */
static inline size_t lsi_window_usual(const ls_group *group)
{
    return group->size == 2 ? 2 * LSI_WINDOW_CHUNK : LSI_WINDOW_CHUNK;
}

/*
 * Bytes of a chunk, a multiple of a line: a chunk of each slot fits a half of
 * the window. By default the staged data of a few ranks stays in their
 * second-level caches; `lockstep tune` measures what is best. With more ranks
 * than CPUs, each chunk costs a turn of every rank on a CPU, which is more than
 * a cache saves. Then chunks are as large as the window allows.
 */
static inline size_t lsi_window_chunk(const ls_group *group, int slots)
{
    const size_t tuned = (size_t)group->select->window;
    const size_t chunk = tuned > 0 ? tuned : lsi_window_usual(group);
    const size_t half = group->memory.few_cpus ? (size_t)LSI_STAGING_BYTES / 2
                                               : LSI_WINDOW_CHUNKS * chunk;
    const size_t part = half / (size_t)slots / LSI_LINE * LSI_LINE;
    const size_t most = part > 0 ? part : LSI_LINE;
    return group->memory.few_cpus || most < chunk ? most : chunk;
}

static inline unsigned char *lsi_window_slot(const ls_group *group, int rank,
                                             size_t step, int slot,
                                             size_t chunk)
{
    return lsi_window(group, rank) + (step % 2) * (LSI_STAGING_BYTES / 2) +
           (size_t)slot * chunk;
}

/* Whether a collective that has not begun may fill its rank's window. */
bool lsi_window_free(const lsi_collective *op);

/*
 * Runs step(op, k) for k = 0..steps-1, with all ranks having done step k-1
 * before any does step k. First makes sure that the windows are free, unless
 * every rank has done step 0 ahead.
 */
ls_status lsi_window_steps(lsi_collective *op, size_t steps,
                           void (*step)(lsi_collective *op, size_t k));

#endif
