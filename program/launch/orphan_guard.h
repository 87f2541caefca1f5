/*
 * What ends the children of ranks when nobody is left to do it: launcher and
 * supervisor were killed together (`pkill -9 lockstep`). The supervisor holds
 * the only writing end of a pipe; each rank holds a reading end of its own, for
 * which the kernel is told to send SIGKILL to the rank's process group when
 * something happens to it; and nothing ever does but that the supervisor ends.
 *
 * It does not reach what a rank has put into another process group, and needs
 * /proc, and the rank not to close descriptors that it does not know. Where it
 * cannot be had, ranks start without.
 */
#ifndef LS_LAUNCH_ORPHAN_GUARD_H
#define LS_LAUNCH_ORPHAN_GUARD_H

#include <stdbool.h>

/*
 * Called by the supervisor, once for all attempts: the writing end stays open
 * until this process ends. Returns the end for lsi_orphan_guard_take; -1 with
 * errno if there can be none.
 */
int lsi_orphan_guard_open(void);

/*
 * Called by a rank that is the head of its process group, before it becomes
 * its program, which inherits the reading end. False if it has none.
 */
bool lsi_orphan_guard_take(int orphan_guard);

#endif
