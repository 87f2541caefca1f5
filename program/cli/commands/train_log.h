/*
 * The log of training in epochs (report/run_log.h), and its summary on stdout.
 * Rank 0 prints, the other ranks do not.
 */
#ifndef LS_CLI_COMMANDS_TRAIN_LOG_H
#define LS_CLI_COMMANDS_TRAIN_LOG_H

#include "cli/commands/run_summary.h"
#include "report/run_log.h"
#include "train/jobs/classify.h"

typedef struct lsi_train_log {
    bool is_first;    /* this is rank 0 */
    const char *name; /* of the implementation, for the summary */
    lsi_run_about about;
    lsi_run_summary summary; /* its data, recipe, seed and keep */
    lsi_run_log *run;
    char model[160], counts[160]; /* in words */
    int64_t step;                 /* of the optimizer, the last one */
    lsi_epoch *done;
    size_t n_done;
    lsi_run_rank *ranks; /* of the newest epoch */
} lsi_train_log;

/*
 * Prints the training that begins. The caller fills in the log down to
 * `summary`, except for members that `start` has, and closes it.
 */
ls_status lsi_train_log_open(lsi_train_log *log,
                             const lsi_classify_start *start,
                             const lsi_run_outputs *outputs);
void lsi_train_log_close(lsi_train_log *log);

/* After a micro-step. */
void lsi_train_log_step(lsi_train_log *log, const lsi_progress_report *report);

/* After an epoch. */
ls_status lsi_train_log_epoch(lsi_train_log *log, const lsi_epoch *epoch);

/* After all of them. */
ls_status lsi_train_log_summary(const lsi_train_log *log);

#endif
