/*
 * Telling a process from its parent. A child that a process forks has all of
 * its memory, and none of its threads; it is no rank of its parent's groups.
 */
#ifndef LS_COMM_STATE_FORKS_H
#define LS_COMM_STATE_FORKS_H

#include "comm/state/state.h"

/* How many forks lie between this process and the first that asked. */
extern unsigned lsi_forks;

/* Before the first group is made. */
void lsi_count_forks(void);

/* Whether a process that this one descends from has opened the group. */
static inline bool lsi_is_inherited(const ls_group *group)
{
    return group->forks != lsi_forks;
}

/* LS_ERR_STATE, with a sentence. */
ls_status lsi_refuse_inherited(const ls_group *group);

#endif
