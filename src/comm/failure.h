/*
 * How a group fails: once, for all ranks, with a reason.
 */
#ifndef LS_COMM_FAILURE_H
#define LS_COMM_FAILURE_H

#include "comm/state.h"

static inline bool lsi_has_failed(const ls_group *group)
{
    return atomic_load_explicit(&group->memory.header->failed,
                                memory_order_acquire) != 0;
}

/* Why the group has failed; NULL if it has not. It stays where it is. */
static inline const lsi_failure *lsi_failure_of(const ls_group *group)
{
    /* Acquires what the rank has written before it was the first. */
    const uint32_t first = atomic_load_explicit(&group->memory.header->failed,
                                                memory_order_acquire);
    return first == 0 ? NULL : &lsi_member_of(group, (int)first - 1)->failure;
}

/* Records the failure unless there is one already, and wakes everybody. */
void lsi_post_failure(ls_group *group, const lsi_failure *failure);

/* The same, of a failure that a rank of another node has told. */
void lsi_hear_failure(ls_group *group, const lsi_failure *failure);

/* Says in this rank's words why the group has failed; returns its status. */
ls_status lsi_report_failure(ls_group *group);

/* Compares a rank's call with one's own; posts and reports a difference. */
ls_status lsi_check_call(lsi_collective *op, int rank);

/* Looks for ranks that disagree, have died or have left. Not for hot paths. */
ls_status lsi_check_peers(ls_group *group);

/* A rank that has died, or -1. Any thread may ask. */
int lsi_find_dead(const ls_group *group);

/*
 * Fails the group because others did not come in time, be it that this rank was
 * told to end before (sigterm.h).
 */
ls_status lsi_time_out(ls_group *group, bool told_to_end);

#endif
