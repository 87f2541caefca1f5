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

/* Returns when *done is true, or LS_IN_PROGRESS after `seconds`. */
ls_status lsi_wait_seconds(ls_group *group, const bool *done, double seconds);

/*
 * Returns when reached(goal) is true, or LS_IN_PROGRESS after `seconds`.
 * `reached` may look at other groups, too.
 */
typedef bool lsi_reached_fn(const void *goal);
ls_status lsi_wait_seconds_until(ls_group *group, lsi_reached_fn *reached,
                                 const void *goal, double seconds);

/*
 * Called when a request has been tested in vain: moves other groups and checks
 * the peers, without waiting. Must cost next to nothing.
 */
ls_status lsi_poll(ls_group *group);

/* A tested request is done. */
void lsi_polling_over(ls_group *group);

/*
 * For a new group: until all ranks have come, which takes processes
 * milliseconds, waiting ranks sleep.
 */
void lsi_begin_to_wait(ls_group *group);

/* Decides how to wait, from the CPUs that the members may use. */
void lsi_learn_to_wait(ls_group *group);

/*
 * Looks at a word in a time, within LSI_LEAST_SPINS and LSI_MOST_SPINS:
 * measured, in some microseconds. A look takes as long as an instruction that
 * pauses, which differs by a factor of ten between processors.
 */
int lsi_looks_in(uint64_t ns);

#endif
