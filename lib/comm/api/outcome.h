/*
 * One outcome for all ranks.
 */
#ifndef LS_COMM_API_OUTCOME_H
#define LS_COMM_API_OUTCOME_H

#include "lockstep/group.h"

/*
 * Every rank passes how something went on it. LS_OK if it went well on all;
 * otherwise all ranks get the status and the message of the lowest rank on
 * which it failed, and *agreed becomes true (it is not written else): one rank
 * is enough to tell. Collective. Call it after steps that may fail on one rank
 * alone, so that no rank waits for one that has given up.
 */
ls_status lsi_share_outcome(ls_group *group, ls_status status, bool *agreed);

/* The same, and if all is well *value becomes its mean over the ranks. */
ls_status lsi_share_mean(ls_group *group, ls_status status, double *value,
                         bool *agreed);

#endif
