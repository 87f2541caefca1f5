/*
 * The summary of a training run, with its configuration: the last lines of a
 * run's log.
 */
#ifndef LS_CLI_COMMANDS_RUN_SUMMARY_H
#define LS_CLI_COMMANDS_RUN_SUMMARY_H

#include "report/run_log.h"
#include "train/keep.h"
#include "train/recipe.h"

typedef struct lsi_run_summary {
    const lsi_run_about *about;
    const char *model;  /* in words, with its size */
    const char *data;   /* where they are from; NULL: built-in */
    const char *counts; /* how many, of the data and in a step */
    lsi_recipe recipe;
    int64_t batch_size, accumulate; /* of a rank */
    uint64_t seed;
    uint64_t compared;    /* bytes found equal to other ranks' copies */
    const char *result;   /* in words */
    const lsi_keep *keep; /* where the model is */
} lsi_run_summary;

void lsi_run_summary_log(lsi_run_log *log, const lsi_run_summary *summary);

/* The last line of all, after what was printed on stdout. */
void lsi_run_summary_log_saved(lsi_run_log *log,
                               const lsi_run_summary *summary);

#endif
