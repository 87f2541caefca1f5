/*
 * The log files of a run: FOLDER/RUN/ATTEMPT/RANK/stdout.log and stderr.log,
 * and error.json beside them, for what Python programs say of their end.
 */
#ifndef LS_LAUNCH_LOGS_H
#define LS_LAUNCH_LOGS_H

#include <stddef.h>

#include "lockstep/status.h"

/* Which logs. */
typedef struct lsi_logs_of {
    const char *folder, *run_id;
    int attempt, rank;
} lsi_logs_of;

typedef struct lsi_rank_logs {
    char folder[4096];     /* of the rank in this attempt */
    char error_file[4112]; /* in it */
    int files[2];          /* stdout.log, stderr.log, to append to */
} lsi_rank_logs;

/*
 * Makes the folder of a rank and its files, which are the caller's to close.
 * LS_ERR_IO says which could not be made.
 */
ls_status lsi_rank_logs_open(lsi_rank_logs *logs, const lsi_logs_of *of);

/*
 * The last lines, at most `lines`, of a rank's stderr.log, in out[bytes],
 * without the end of the very last; ""
 * if it is empty or cannot be read.
 */
void lsi_rank_logs_tail(const lsi_logs_of *of, int lines, char *out,
                        size_t bytes);

#endif
