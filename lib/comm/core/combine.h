/*
 * Arrivals in a tree (comm/schedule/domains.h), for many ranks of one node:
 * each reads one line of its domain instead of a line of every rank.
 */
#ifndef LS_COMM_CORE_COMBINE_H
#define LS_COMM_CORE_COMBINE_H

#include "comm/schedule/domains.h"
#include "comm/state/state.h"

/* Whether the group has a tree; equal on all ranks. */
static inline bool lsi_combines(const ls_group *group)
{
    return group->domains != NULL && group->domains->junctions > 0;
}

/*
 * Counts this rank's arrival, after its stamp. The last rank of all tells the
 * domains; true for that one.
 */
bool lsi_combine(lsi_collective *op, uint64_t stamp);

/* The summary of all ranks once they have reached a stamp; NULL before. */
const lsi_summary *lsi_combined(const lsi_collective *op, uint64_t stamp);

#endif
