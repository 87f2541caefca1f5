/*
 * The effect of SIGUSR1 to a launcher: it asks the ranks of this node for their
 * state. A job that hangs must survive this, even if it was not prepared for
 * it. So a process gets the signal only if it handles it, or waits for it
 * blocked.
 */
#ifndef LS_LAUNCH_ASKING_H
#define LS_LAUNCH_ASKING_H

#include "launch/processes.h"

/*
 * Passes SIGUSR1 on to the processes of the ranks' groups that handle it.
 * Prints for each rank the state on its live page, and how to learn more.
 */
void lsi_ask_ranks(const lsi_processes *ranks);

#endif
