/*
 * The job's memory: which group or buffer gets which range, and when it is free
 * again.
 *
 * All ranks map the ranges that they share: the control region of a group, or a
 * shared buffer. One rank takes a range and tells the others. Each rank that
 * has mapped it lets go of it once, when it will never touch it again. The last
 * rank to do so gives it back: the pages to the system, the range to the next
 * user of this number of bytes.
 *
 * A rank that is late finds everything as it was. A rank that dies never lets
 * go, so its ranges stay until the job ends.
 */
#ifndef LS_COMM_NODE_SPACE_H
#define LS_COMM_NODE_SPACE_H

#include <assert.h>

#include "comm/state/state.h"

/* Bytes must be a multiple of LSI_PAGE. The range reads as zero. */
uint64_t lsi_space_allocate(ls_group *group, uint64_t bytes);

/* Whether this rank is the last of `sharers` to let go. */
static inline bool lsi_space_let_go(lsi_hold *hold, int sharers)
{
    const uint32_t gone = atomic_fetch_add(&hold->gone, 1) + 1;
    assert(gone <= (uint32_t)sharers);
    return gone == (uint32_t)sharers;
}

/* Called once no rank touches the range any more. */
void lsi_space_free(ls_group *group, uint64_t offset, uint64_t bytes);

#endif
