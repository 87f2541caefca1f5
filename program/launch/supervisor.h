/*
 * The process between the front and the ranks: see launch.h.
 */
#ifndef LS_LAUNCH_SUPERVISOR_H
#define LS_LAUNCH_SUPERVISOR_H

#include <signal.h>

#include "launch/launch.h"

/*
 * Starts the ranks, watches them until all have ended and returns the exit
 * status of the job. `parent_pipe` is the read end of a pipe whose other end
 * only the front has: it is readable once the front is gone. `mask` is the
 * signal mask for the ranks. The caller has blocked signals.
 */
int lsi_supervise(const lsi_launch_config *config, int parent_pipe,
                  const sigset_t *mask);

#endif
