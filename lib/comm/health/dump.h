/*
 * Writing what a rank knows about its group: the record of operations, the
 * progress of the other ranks, and why the group has failed. `lockstep doctor`
 * reads the file; docs/how-to/debugging.md explains its fields.
 *
 * If LOCKSTEP_RECORD names a folder, every group writes there when it fails and
 * when the process gets SIGUSR1. The signal's handler only wakes a thread,
 * which writes for all groups of the process, whatever these are doing. A
 * handler that the program has installed itself is left alone.
 *
 * An ignored signal does not count as a handler. The parent may have set
 * SIGUSR1 to be ignored, so that the process survives it until it has a group;
 * `lockstep run` does.
 */
#ifndef LS_COMM_HEALTH_DUMP_H
#define LS_COMM_HEALTH_DUMP_H

#include "comm/state/state.h"

/* From when a group is open until just before it is closed. */
void lsi_dump_join(ls_group *group);
void lsi_dump_leave(ls_group *group);

/* Writes to the folder, if one is set, and logs if it cannot. */
void lsi_dump_failure(const ls_group *group, const char *reason);

/* The content of the file; NULL without memory. */
char *lsi_dump_text(const ls_group *group, const char *reason);

#endif
