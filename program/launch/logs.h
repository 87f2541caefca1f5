/*
 * The log files of a run: FOLDER/RUN/ATTEMPT/RANK/stdout.log and stderr.log,
 * and error.json in the same folder, with the errors of Python programs.
 *
 * A log that has reached its size becomes stdout.log.1, the next one
 * stdout.log.2 and so on. The newest is always stdout.log, and no line is cut
 * in two.
 */
#ifndef LS_LAUNCH_LOGS_H
#define LS_LAUNCH_LOGS_H

#include <stddef.h>
#include <stdint.h>

#include "lockstep/status.h"

/* Identifies the logs of one rank. */
typedef struct lsi_logs_of {
    const char *folder, *run_id;
    int attempt, rank;
} lsi_logs_of;

/* One log file; all zeros but fd -1: none. */
typedef struct lsi_log_file {
    int fd;
    char *path;     /* only for rotation */
    uint64_t bytes; /* bytes in the file */
    uint64_t limit; /* least bytes before rotation, at a line end; 0: none */
    int keep;       /* older files to keep; 0: all */
    int number;     /* number of the newest older file; 0: not known yet */
    int error;      /* errno of the first write that failed, or 0 */
} lsi_log_file;

/* Settings for rotation; all zeros: never. */
typedef struct lsi_rotation {
    uint64_t limit;
    int keep;
} lsi_rotation;

/* After an error the data are lost, and the error is noted. */
void lsi_log_file_write(lsi_log_file *log, const char *data, size_t bytes);
void lsi_log_file_close(lsi_log_file *log);

typedef struct lsi_rank_logs {
    char folder[4096];     /* folder of the rank in this attempt */
    char error_file[4112]; /* error.json in this folder */
    lsi_log_file files[2]; /* stdout.log, stderr.log, to append to */
} lsi_rank_logs;

/*
 * Makes the folder of a rank and its files, which the caller closes. LS_ERR_IO
 * names the one that could not be made.
 */
ls_status lsi_rank_logs_open(lsi_rank_logs *logs, const lsi_logs_of *of,
                             lsi_rotation rotation);

#endif
