/*
 * What SIGUSR1 of a launcher does: it asks the ranks of this node what they do.
 * Whoever meets a job that hangs, and did not plan for it, must not lose it: a
 * process gets the signal only if it handles it, or waits for it blocked.
 */
#ifndef LS_LAUNCH_ASKING_H
#define LS_LAUNCH_ASKING_H

#include "launch/processes.h"

/*
 * Passes SIGUSR1 on to the processes of the ranks' groups that take it, and
 * prints for each rank what its live page tells, and how to learn more.
 */
void lsi_ask_ranks(const lsi_processes *ranks);

#endif
