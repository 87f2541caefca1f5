/*
 * The log files of a run: FOLDER/RUN/ATTEMPT/RANK/stdout.log and stderr.log,
 * and error.json beside them, for what Python programs say of their end. A log
 * that has reached its size becomes stdout.log.1, the next one stdout.log.2 and
 * so on; the newest is always stdout.log, and no line is cut in two.
 */
#ifndef LS_LAUNCH_LOGS_H
#define LS_LAUNCH_LOGS_H

#include <stddef.h>
#include <stdint.h>

#include "lockstep/status.h"

/* Which logs. */
typedef struct lsi_logs_of {
    const char *folder, *run_id;
    int attempt, rank;
} lsi_logs_of;

/* One file; all zeros but fd -1: none. */
typedef struct lsi_log_file {
    int fd;
    char *path;     /* only if it is to be rotated */
    uint64_t bytes; /* that it has */
    uint64_t limit; /* that it gets, and the rest of a line; 0: no limit */
    int keep;       /* of the older files; 0: all */
    int number;     /* of the last of these; 0: not known yet */
    int error;      /* errno of the first write that failed, or 0 */
} lsi_log_file;

/* When files are rotated; all zeros: never. */
typedef struct lsi_rotation {
    uint64_t limit;
    int keep;
} lsi_rotation;

/* An error costs what was to be written, and is noted. */
void lsi_log_file_write(lsi_log_file *log, const char *data, size_t bytes);
void lsi_log_file_close(lsi_log_file *log);

typedef struct lsi_rank_logs {
    char folder[4096];     /* of the rank in this attempt */
    char error_file[4112]; /* in it */
    lsi_log_file files[2]; /* stdout.log, stderr.log, to append to */
} lsi_rank_logs;

/*
 * Makes the folder of a rank and its files, which are the caller's to close.
 * LS_ERR_IO says which could not be made.
 */
ls_status lsi_rank_logs_open(lsi_rank_logs *logs, const lsi_logs_of *of,
                             lsi_rotation rotation);

#endif
