/*
 * Where a process writes what it records: a launcher that starts all ranks
 * again after a failure must not let them overwrite what the failed attempt has
 * left.
 */
#ifndef LS_BASE_RESTART_H
#define LS_BASE_RESTART_H

#include <stdbool.h>
#include <stddef.h>

/* Number of restarts of the ranks by the launcher; 0: none. */
int lsi_restarts(void);

/*
 * The folder for records in `name`: `name` itself for attempt 0, else
 * NAME/attempt-N. False: it does not fit into `room` bytes.
 */
bool lsi_restart_folder(const char *name, char *out, size_t room);

/*
 * The name that all attempts of a run have in common, of at most 200 printable
 * characters; "" if no launcher says it.
 */
const char *lsi_restart_run(void);

#endif
