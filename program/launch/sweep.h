/*
 * Ending the processes that a subreaper has adopted.
 */
#ifndef LS_LAUNCH_SWEEP_H
#define LS_LAUNCH_SWEEP_H

#include <stddef.h>
#include <sys/types.h>

/*
 * The children of this process. *out (NULL without any, or if they cannot be
 * listed) is freed by the caller with free().
 */
size_t lsi_children(pid_t **out);

/*
 * Kills and reaps every child except the `n` listed, then processes that
 * thereby become children, until none is left. It has no effect on
 * grandchildren unless this process is their subreaper. Returns the number of
 * remaining children, which we are not allowed to kill.
 */
size_t lsi_sweep(const pid_t *spared, size_t n);

#endif
