/*
 * The training loop: batches, forward, backward, communication, step.
 */
#ifndef LS_TRAIN_TRAINER_H
#define LS_TRAIN_TRAINER_H

#include "lockstep/group.h"
#include "lockstep/parallel.h"
#include "train/model.h"
#include "train/recipe.h"
#include "train/totals.h"

/* How far an epoch has come on this rank. */
typedef struct lsi_progress_report {
    int64_t epoch;
    int64_t step, steps; /* micro-steps done and to do */
    lsi_totals totals;   /* of this rank so far */
} lsi_progress_report;

/* After each micro-step. */
typedef void (*lsi_step_fn)(void *context, const lsi_progress_report *report);

/* After each step of the optimizer; an error ends the epoch. */
typedef ls_status (*lsi_stepped_fn)(void *context,
                                    const lsi_progress_report *report);

typedef struct lsi_trainer {
    ls_group *group;
    const lsi_model *model;
    ls_ddp *ddp; /* with deferred scale */
    lsi_stepper *stepper;
    ls_tape *tape;
    int64_t accumulate; /* micro-steps for each optimizer step */
    uint64_t seed;
    lsi_step_fn on_step; /* or NULL */
    void *context;
    lsi_stepped_fn on_stepped; /* or NULL */
    void *stepped_context;
} lsi_trainer;

/*
 * One epoch, or what is left of it: report has its number, and of the part that
 * is done micro-steps and totals (0 at its beginning). The last optimizer step
 * takes the micro-steps that are left, be they fewer than `accumulate`. In the
 * end the totals are those of all ranks on rank 0. Collective: a rank that
 * fails, be it that it cannot read, tells the others why.
 */
ls_status lsi_train_epoch(lsi_trainer *trainer, const lsi_source *source,
                          lsi_progress_report *report);

#endif
