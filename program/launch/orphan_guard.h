/*
 * Ends the children of ranks when launcher and supervisor were killed together
 * (`pkill -9 lockstep`).
 *
 * The supervisor holds the only writing end of a pipe. Each rank holds a
 * separate reading end, for which the kernel sends SIGKILL to the rank's
 * process group on any event. The only possible event is the end of the
 * supervisor.
 *
 * The guard does not reach processes that a rank has put into another process
 * group. It needs /proc, and the rank must not close descriptors that it does
 * not know. Without a guard, ranks start anyway.
 */
#ifndef LS_LAUNCH_ORPHAN_GUARD_H
#define LS_LAUNCH_ORPHAN_GUARD_H

#include <stdbool.h>

/*
 * Called by the supervisor, once for all attempts: the writing end stays open
 * until this process ends. Returns the end for lsi_orphan_guard_arm; -1 with
 * errno on failure.
 */
int lsi_orphan_guard_open(void);

/*
 * Called by a rank that leads its process group, before it runs its program,
 * which inherits the reading end. False without a guard.
 */
bool lsi_orphan_guard_arm(int orphan_guard);

#endif
