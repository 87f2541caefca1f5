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

/* How far an epoch has come on this rank, told after each micro-step. */
typedef struct lsi_progress_report {
    int64_t epoch;
    int64_t step, steps; /* micro-steps done and to do */
    lsi_totals totals;   /* of this rank so far */
} lsi_progress_report;

typedef void (*lsi_step_fn)(void *context, const lsi_progress_report *report);

typedef struct lsi_trainer {
    ls_group *group;
    const lsi_model *model;
    ls_ddp *ddp; /* with deferred scale */
    lsi_stepper *stepper;
    ls_tape *tape;
    int64_t accumulate; /* micro-steps for each optimizer step */
    uint64_t seed;
    uint64_t micro_steps; /* done since the start of training */
    lsi_step_fn on_step;  /* or NULL */
    void *context;
} lsi_trainer;

/*
 * One epoch. The last optimizer step of it takes the micro-steps that are left,
 * be they fewer than `accumulate`. totals are those of all ranks on rank 0.
 * Collective.
 */
ls_status lsi_train_epoch(lsi_trainer *trainer, const lsi_source *source,
                          int64_t epoch, lsi_totals *totals);

#endif
