/*
 * The log of a training run. A job reports the numbers of a step or an epoch
 * once. All sinks receive them in one form: lines on stderr, the file of
 * metrics, TensorBoard, Prometheus.
 */
#ifndef LS_REPORT_RUN_LOG_H
#define LS_REPORT_RUN_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lockstep/status.h"

/* Description of the training. Texts must outlive the log. */
typedef struct lsi_run_about {
    const char *job;      /* job, such as "lm" */
    const char *unit;     /* unit of throughput, in the plural: "tokens" */
    bool perplexity;      /* the loss is one of tokens: its exp is shown, too */
    int64_t first, steps; /* optimizer steps: done before, and in all */
    int64_t epochs;       /* number of epochs; 0: steps only */
    int64_t every;        /* steps between lines; 0: 10, or a live line */
    int64_t kept_lines;   /* metrics lines from before that are kept */
    bool resumes;         /* --resume was given, with or without a checkpoint */
    int ranks, threads;
    const char *model, *strategy, *dtype, *optimizer;
} lsi_run_about;

/* Outputs of the log; a path may be NULL. */
typedef struct lsi_run_outputs {
    bool quiet; /* no lines on stderr */
    bool markdown;
    const char *metrics, *tensorboard, *prometheus, *trace, *memory;
    const char *trace_steps; /* FIRST:COUNT, or NULL for all */
} lsi_run_outputs;

/* The chosen gradient strategy, if the run has chosen one. */
typedef struct lsi_run_strategy {
    const char *name;
    double bucket_mb; /* bucket size in MB; infinite: one transfer */
    size_t n;         /* number of measured candidates */
    struct {
        const char *name;
        double seconds; /* seconds of a step */
    } measured[8];
} lsi_run_strategy;

/* Numbers of an optimizer step. NAN: not known. */
typedef struct lsi_run_step {
    int64_t step;         /* number of the step, from 1 */
    int64_t epoch;        /* number of the epoch, from 1 */
    double loss;          /* loss of the step's samples before the update */
    double lr;            /* learning rate of the update */
    double gradient_norm; /* norm before clipping; not finite: step skipped */
    double loss_scale;    /* scale from now on; 0: losses are not scaled */
    int64_t skipped;      /* steps skipped so far */
    uint64_t compared;    /* bytes found equal to other ranks' copies so far */
    double seconds;       /* seconds of the step */
    double units;         /* units of all ranks in the step */
    /* The log fills in these members. */
    double rate;          /* units a second; 0: not known */
    double elapsed, left; /* seconds of this process; NAN: not known */
} lsi_run_step;

/* Progress within an epoch, after a micro-step. */
typedef struct lsi_run_part {
    int64_t epoch;     /* number of the epoch, from 1 */
    int64_t done, all; /* micro-steps */
    double loss;       /* mean of the epoch so far */
} lsi_run_part;

typedef struct lsi_run_validation {
    int64_t step; /* steps done so far */
    double loss;
} lsi_run_validation;

/* Numbers of an epoch on one rank. */
typedef struct lsi_run_rank {
    double train_loss, train_accuracy, train_seconds, waited_seconds;
    double rate;                   /* units a second of this rank */
    double val_loss, val_accuracy; /* of its share of the validation */
    uint64_t peak_bytes;
} lsi_run_rank;

typedef struct lsi_run_epoch {
    int64_t epoch; /* number of the epoch, from 1 */
    int64_t step;  /* steps done so far */
    double train_loss, train_accuracy;
    double train_seconds;
    double rate;           /* units a second during training */
    double waited_seconds; /* seconds spent waiting for data during training */
    double val_loss, val_accuracy;
    double loss_scale; /* scale after the epoch; 0: losses are not scaled */
    int64_t skipped;   /* steps skipped so far, in all epochs */
    uint64_t compared; /* bytes found equal to other ranks' copies so far */
    uint64_t peak_bytes, collectives;
    const lsi_run_rank *ranks; /* one for each rank, or NULL */
    size_t n_ranks;
} lsi_run_epoch;

typedef struct lsi_run_log lsi_run_log;

/*
 * *out is the caller's. Fails now for outputs that cannot be written. `outputs`
 * is NULL for quiet ranks, which report nothing.
 */
ls_status lsi_run_log_open(lsi_run_log **out, const lsi_run_about *about,
                           const lsi_run_outputs *outputs);

/*
 * After a failed write, every later call returns the error. So a caller that
 * cannot handle it now may check later.
 */
ls_status lsi_run_log_strategy(lsi_run_log *log,
                               const lsi_run_strategy *strategy);
ls_status lsi_run_log_step(lsi_run_log *log, const lsi_run_step *step);
ls_status lsi_run_log_validation(lsi_run_log *log,
                                 const lsi_run_validation *validation);
ls_status lsi_run_log_epoch(lsi_run_log *log, const lsi_run_epoch *epoch);

void lsi_run_log_part(lsi_run_log *log, const lsi_run_part *part);

/*
 * A checkpoint of this step is complete. The next call returns the error of
 * this one.
 */
void lsi_run_log_saved(lsi_run_log *log, int64_t step, const char *folder);

/* Prints a line on stderr, if lines are wanted. */
void lsi_run_log_say(lsi_run_log *log, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * Prints flags on stderr, if lines are wanted; they can be copied into a
 * command line.
 */
void lsi_run_log_say_flags(lsi_run_log *log, const char *line);

/* All steps are done: writes the remaining data. */
ls_status lsi_run_log_end(lsi_run_log *log);

/* Accepts NULL and a pointer to NULL. Sets *log to NULL. */
void lsi_run_log_close(lsi_run_log **log);

#endif
