/*
 * Telling a process from its parent. A child that a process forks has all of
 * its memory, and none of its threads. It is not a rank of its parent's groups.
 */
#ifndef LS_COMM_STATE_FORKS_H
#define LS_COMM_STATE_FORKS_H

#include "comm/state/state.h"

/* The number of forks from the first process that asked to this one. */
extern unsigned lsi_forks;

/* Before the first group is made. */
void lsi_count_forks(void);

/* Whether a process that this one descends from has opened the group. */
static inline bool lsi_is_inherited(const ls_group *group)
{
    return group->forks != lsi_forks;
}

/* LS_ERR_STATE, with an error text. */
ls_status lsi_refuse_inherited(const ls_group *group);

#endif
