/*
 * A second queue of the same ranks.
 */
#ifndef LS_COMM_API_SPLIT_H
#define LS_COMM_API_SPLIT_H

#include "lockstep/group.h"

/*
 * Makes a group of the same ranks with a queue of its own, so that what is
 * started there need not come in the same place among the collectives of
 * `group` on all ranks. It reduces the shared buffers of `group` in place, and
 * counts into the counters of `group`. No shared buffers are allocated with
 * it. To be closed before `group`. Collective.
 */
ls_status lsi_group_dup(ls_group *group, ls_group **out);

#endif
