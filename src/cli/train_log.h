/*
 * What a training run says: progress and a line for each epoch on stderr, the
 * summary on stdout, metrics in a file. Rank 0 speaks, the others keep quiet.
 */
#ifndef LS_CLI_TRAIN_LOG_H
#define LS_CLI_TRAIN_LOG_H

#include "report/jsonl.h"
#include "report/progress.h"
#include "train/jobs/classify.h"

typedef struct lsi_train_log {
    bool quiet;
    const char *name; /* of the implementation, for the summary */
    int ranks;
    int64_t epochs; /* to come in all */
    lsi_jsonl *metrics;
    lsi_progress_bar progress; /* of an epoch, while it is shown */
    bool shown;
    char label[48]; /* of the progress bar */
    lsi_epoch *done;
    size_t n_done;
} lsi_train_log;

/*
 * Opens the metrics file (NULL: none), in which the lines of so many epochs
 * stay. The log is filled in otherwise by the caller, who closes it.
 */
ls_status lsi_train_log_open(lsi_train_log *log, const char *metrics,
                             int64_t epochs);
void lsi_train_log_close(lsi_train_log *log);

/* After a micro-step. */
void lsi_train_log_step(lsi_train_log *log, const lsi_progress_report *report);

/* After an epoch. */
ls_status lsi_train_log_epoch(lsi_train_log *log, const lsi_epoch *epoch);

/* After all of them. */
ls_status lsi_train_log_summary(const lsi_train_log *log);

#endif
