/*
 * What a training run tells, in one form for all who are told: the lines on
 * stderr, the file of metrics, TensorBoard, Prometheus. A job says the numbers
 * of a step or an epoch once.
 */
#ifndef LS_REPORT_RUN_LOG_H
#define LS_REPORT_RUN_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lockstep/status.h"

/* What is trained. Texts must outlive the log. */
typedef struct lsi_run_about {
    const char *job;      /* "lm" */
    const char *unit;     /* what is trained on, in the plural: "tokens" */
    bool perplexity;      /* the loss is one of tokens: its exp is shown, too */
    int64_t first, steps; /* of the optimizer: taken before, and in all */
    int64_t epochs;       /* 0: there are only steps */
    int64_t every;        /* steps between lines; 0: 10, or a live line */
    int64_t kept_lines;   /* of metrics that were written before */
    bool resumes;         /* with --resume, be there something or not */
    int ranks, threads;
    const char *model, *strategy, *dtype, *optimizer;
} lsi_run_about;

/* Where it is told; a path may be NULL. */
typedef struct lsi_run_outputs {
    bool quiet; /* no lines on stderr */
    bool markdown;
    const char *metrics, *tensorboard, *prometheus, *trace, *memory;
    const char *trace_steps; /* FIRST:COUNT, or NULL for all */
} lsi_run_outputs;

/* How gradients travel, where the run has chosen that. */
typedef struct lsi_run_strategy {
    const char *name;
    double bucket_mb; /* infinite: everything travels together */
    size_t n;         /* that were measured */
    struct {
        const char *name;
        double seconds; /* of a step */
    } measured[8];
} lsi_run_strategy;

/* After a step of the optimizer. NAN: not known. */
typedef struct lsi_run_step {
    int64_t step;         /* from 1 */
    int64_t epoch;        /* from 1 */
    double loss;          /* of the step's samples, before it */
    double lr;            /* that it was taken with */
    double gradient_norm; /* before it was limited; not finite: skipped */
    double loss_scale;    /* from now on; 0: losses are not scaled */
    int64_t skipped;      /* steps so far */
    double seconds;       /* that it took */
    double units;         /* of all ranks in it */
    /* The log fills in these. */
    double rate;          /* units a second; 0: not known */
    double elapsed, left; /* seconds of this process; NAN: not known */
} lsi_run_step;

/* Within an epoch, after a micro-step. */
typedef struct lsi_run_part {
    int64_t epoch;     /* from 1 */
    int64_t done, all; /* micro-steps */
    double loss;       /* mean of the epoch so far */
} lsi_run_part;

typedef struct lsi_run_validation {
    int64_t step; /* after so many */
    double loss;
} lsi_run_validation;

/* What an epoch was on one rank. */
typedef struct lsi_run_rank {
    double train_loss, train_accuracy, train_seconds, waited_seconds;
    double rate;                   /* units a second, of its own */
    double val_loss, val_accuracy; /* of its share of the validation */
    uint64_t peak_bytes;
} lsi_run_rank;

typedef struct lsi_run_epoch {
    int64_t epoch; /* from 1 */
    int64_t step;  /* after so many */
    double train_loss, train_accuracy;
    double train_seconds;
    double rate;           /* units a second, of training */
    double waited_seconds; /* for data, while it trained */
    double val_loss, val_accuracy;
    double loss_scale; /* after it; 0: losses are not scaled */
    int64_t skipped;   /* steps so far, in all epochs */
    uint64_t peak_bytes, collectives;
    const lsi_run_rank *ranks; /* of each; or NULL */
    size_t n_ranks;
} lsi_run_epoch;

typedef struct lsi_run_log lsi_run_log;

/*
 * *out is the caller's. What cannot be written is refused now. `outputs` is
 * NULL for ranks that keep quiet: nothing is told then.
 */
ls_status lsi_run_log_open(lsi_run_log **out, const lsi_run_about *about,
                           const lsi_run_outputs *outputs);

/*
 * What could not be written once is an error from then on, so that a caller who
 * has no use for it now may ask later.
 */
ls_status lsi_run_log_strategy(lsi_run_log *log,
                               const lsi_run_strategy *strategy);
ls_status lsi_run_log_step(lsi_run_log *log, const lsi_run_step *step);
ls_status lsi_run_log_validation(lsi_run_log *log,
                                 const lsi_run_validation *validation);
ls_status lsi_run_log_epoch(lsi_run_log *log, const lsi_run_epoch *epoch);

void lsi_run_log_part(lsi_run_log *log, const lsi_run_part *part);

/* A checkpoint of this step is whole. An error is told by the next call. */
void lsi_run_log_saved(lsi_run_log *log, int64_t step, const char *folder);

/* One line on stderr, unless they are not wanted. */
void lsi_run_log_say(lsi_run_log *log, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same of flags, which can be copied from there into a command line. */
void lsi_run_log_say_flags(lsi_run_log *log, const char *line);

/* All steps are done: writes what has not been written yet. */
ls_status lsi_run_log_end(lsi_run_log *log);

/* Accepts NULL and a pointer to NULL. Sets *log to NULL. */
void lsi_run_log_close(lsi_run_log **log);

#endif
