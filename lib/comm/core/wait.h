/*
 * Waiting that does not waste the CPU and does not last for ever.
 */
#ifndef LS_COMM_CORE_WAIT_H
#define LS_COMM_CORE_WAIT_H

#include "comm/state/state.h"

/* Submits an op and returns when it is done. */
ls_status lsi_collective_complete(lsi_collective *op);

/* Returns when *done is true. */
ls_status lsi_wait_for(ls_group *group, const bool *done);

/* The same, or LS_IN_PROGRESS after so many seconds. */
ls_status lsi_wait_seconds(ls_group *group, const bool *done, double seconds);

/* The same until reached(goal), which may look at other groups, too. */
typedef bool lsi_reached_fn(const void *goal);
ls_status lsi_wait_seconds_until(ls_group *group, lsi_reached_fn *reached,
                                 const void *goal, double seconds);

/*
 * Called when a request has been tested in vain: the same without waiting. Must
 * cost next to nothing.
 */
ls_status lsi_poll(ls_group *group);

/* What was tested is done. */
void lsi_polling_over(ls_group *group);

/*
 * Of a new group: until all have come, which takes processes milliseconds,
 * ranks sleep when they wait.
 */
void lsi_begin_to_wait(ls_group *group);

/* Decides how to wait, from the CPUs that the members may use. */
void lsi_learn_to_wait(ls_group *group);

#endif
