/*
 * Writing what a rank knows about its group: the record of operations, how far
 * the others have come, and why the group has failed. `lockstep doctor` reads
 * it; docs/how-to/debugging.md says what the fields mean.
 *
 * If LOCKSTEP_RECORD names a folder, every group writes there when it fails and
 * when the process gets SIGUSR1. The signal's handler only wakes a thread,
 * which writes for all groups of the process, whatever these are doing. A
 * handler that the program has installed itself is left alone. That the signal
 * is ignored does not count as one: who starts the process may have seen to it,
 * so that it lives until it has a group, as `lockstep run` does.
 */
#ifndef LS_COMM_HEALTH_DUMP_H
#define LS_COMM_HEALTH_DUMP_H

#include "comm/state/state.h"

/* From when a group is open until just before it is closed. */
void lsi_dump_join(ls_group *group);
void lsi_dump_leave(ls_group *group);

/* Writes to the folder, if there is one, and logs if it cannot. */
void lsi_dump_failure(const ls_group *group, const char *reason);

/* The content of the file; NULL if there is no memory. */
char *lsi_dump_text(const ls_group *group, const char *reason);

#endif
