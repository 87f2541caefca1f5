/*
 * Folders of recordings. Of a run that was restarted DIR itself has what
 * attempt 0 recorded, DIR/attempt-N what attempt N did (base/restart.h).
 */
#ifndef LS_REPORT_FOLDER_H
#define LS_REPORT_FOLDER_H

#include <glob.h>
#include <limits.h>
#include <stdint.h>

#include "lockstep/status.h"

/*
 * The files that match a pattern, in the order of their names. `pattern` is for
 * names in the folder, whose own name is taken as it is. None is no error. *out
 * is the caller's (globfree). LS_ERR_IO, LS_ERR_MEMORY.
 */
ls_status lsi_find_files(const char *folder, const char *pattern, glob_t *out);

typedef struct lsi_attempts {
    char folder[PATH_MAX]; /* of the attempt that was chosen */
    int chosen, newest;
} lsi_attempts;

/*
 * Chooses attempt `wanted`, or the newest one for -1. `ending` is that of the
 * files to look for, such as ".lstrace". Attempts that an earlier run has left
 * do not count as newer than those of a later one. A folder without attempts,
 * or that cannot be read, is attempt 0. LS_ERR_NOT_FOUND names the attempts
 * that are there.
 */
ls_status lsi_find_attempt(const char *folder, const char *ending,
                           int64_t wanted, lsi_attempts *out);

/* Says on stderr which one was chosen, if there are several. */
void lsi_tell_attempt(const lsi_attempts *attempts);

#endif
