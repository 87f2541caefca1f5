/*
 * Passes over a set of samples, for jobs whose steps are grouped in epochs.
 */
#ifndef LS_TRAIN_JOBS_EPOCHS_H
#define LS_TRAIN_JOBS_EPOCHS_H

#include "model/autograd/slices.h"
#include "train/jobs/totals.h"
#include "train/loop.h"

/* The progress of an epoch on this rank. */
typedef struct lsi_progress_report {
    int64_t epoch;
    int64_t step, steps; /* micro-steps done and to do */
    lsi_totals totals;   /* of this rank so far */
    /* After a step of the optimizer; NULL between its micro-steps. */
    const lsi_stepper *stepper;
    lsi_totals step_totals; /* of this rank in that step */
    double step_seconds;    /* seconds of the step */
} lsi_progress_report;

/* After each micro-step. */
typedef void (*lsi_step_fn)(void *context, const lsi_progress_report *report);

typedef struct lsi_epochs {
    lsi_loop *loop;
    const lsi_model *model;
    lsi_source source;
    int64_t accumulate; /* micro-steps for each step of the optimizer */
    uint64_t seed;
    lsi_step_fn on_step; /* or NULL */
    void *context;
    lsi_progress_report report;
    lsi_totals before;             /* totals before the step */
    double losses[LSI_MAX_SLICES]; /* sums of the epoch, of each slice */
    double begun;                  /* start time of the step */
} lsi_epochs;

/*
 * Begins the report's epoch, which may have micro-steps and totals. A rank that
 * cannot read the data fails in its next step, where the other ranks learn of
 * it.
 */
void lsi_epochs_begin(lsi_epochs *epochs);

/*
 * Begins the report's epoch for steps that are only measured. Returns the
 * number of micro-steps that are left, at least one: after the last micro-step,
 * those of the whole epoch.
 */
int64_t lsi_epochs_rehearse(lsi_epochs *epochs);

/*
 * Begins the next step and returns its micro-steps; 0 at the end of the epoch.
 * The last step has the micro-steps that are left, even if fewer than
 * `accumulate`.
 */
int64_t lsi_epochs_next(lsi_epochs *epochs);

/* A step of `micro_steps` micro-steps, up to lsi_loop_update. Collective. */
ls_status lsi_epochs_step(lsi_epochs *epochs, int64_t micro_steps);

/* For lsi_train_job. */
lsi_forward lsi_epochs_forward(lsi_epochs *epochs);
ls_status lsi_epochs_add(lsi_epochs *epochs, const lsi_forward *out);

#endif
