/*
 * One outcome for all ranks.
 */
#ifndef LS_COMM_API_OUTCOME_H
#define LS_COMM_API_OUTCOME_H

#include "lockstep/group.h"

/*
 * Every rank passes the status of a step. LS_OK if the step succeeded on all
 * ranks. Otherwise all ranks get the status and the message of the lowest rank
 * on which it failed, and *agreed becomes true; on success it is not written.
 * With *agreed true, it is enough that one rank reports the error. Collective.
 * Call it after steps that may fail on one rank alone, so that no rank waits
 * for one that has given up.
 */
ls_status lsi_share_outcome(ls_group *group, ls_status status, bool *agreed);

/* As lsi_share_outcome; on success *value becomes its mean over the ranks. */
ls_status lsi_share_mean(ls_group *group, ls_status status, double *value,
                         bool *agreed);

#endif
