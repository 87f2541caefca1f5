/*
 * How a group fails: once, for all ranks, with a reason.
 */
#ifndef LS_COMM_HEALTH_FAILURE_H
#define LS_COMM_HEALTH_FAILURE_H

#include "comm/state/state.h"

/* Records the failure unless there is one already, and wakes everybody. */
void lsi_post_failure(ls_group *group, const lsi_failure_record *failure);

/* The same for a failure that a rank of another node has reported. */
void lsi_accept_failure(ls_group *group, const lsi_failure_record *failure);

/* Reports this rank's view of why the group has failed; returns its status. */
ls_status lsi_report_failure(ls_group *group);

/* A rank that has died, or -1. Any thread may ask. */
int lsi_find_dead(const ls_group *group);

#endif
