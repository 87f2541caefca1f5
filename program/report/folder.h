/*
 * Folders of recordings. In a run that was restarted, DIR itself has the
 * records of attempt 0, and DIR/attempt-N those of attempt N (base/restart.h).
 */
#ifndef LS_REPORT_FOLDER_H
#define LS_REPORT_FOLDER_H

#include <glob.h>
#include <limits.h>
#include <stdint.h>

#include "lockstep/status.h"

/*
 * The files that match a pattern, in the order of their names. `pattern` is for
 * names in the folder; the folder's own name is not a pattern. No match is not
 * an error. *out is the caller's (globfree). LS_ERR_IO, LS_ERR_MEMORY.
 */
ls_status lsi_find_files(const char *folder, const char *pattern, glob_t *out);

typedef struct lsi_attempts {
    char folder[PATH_MAX]; /* folder of the chosen attempt */
    int chosen, newest;
} lsi_attempts;

/*
 * Chooses attempt `wanted`, or the newest one for -1. `ending` is the suffix of
 * the files to look for, such as ".lstrace".
 *
 * Attempts left by an earlier run never count as newer than those of a later
 * run. A folder without attempts, or one that cannot be read, is attempt 0.
 * LS_ERR_NOT_FOUND names the attempts that exist.
 */
ls_status lsi_find_attempt(const char *folder, const char *ending,
                           int64_t wanted, lsi_attempts *out);

/* Prints the chosen attempt on stderr, if there are several. */
void lsi_tell_attempt(const lsi_attempts *attempts);

/* The row of --attempt, to be used where ROW is defined. */
#define LSI_ATTEMPT_ROW(field)                                                 \
    ROW(field, INT, "attempt", 0, "N", "-1",                                   \
        "if the run was restarted, read the records of attempt N, counted "    \
        "from 0; -1: the newest",                                              \
        .min = -1, .max = 1e6)

/* In help and errors: the folder of traces. */
#define LSI_TRACE_FOLDER                                                       \
    "the folder that --trace or LOCKSTEP_TRACE named during the run"

#endif
