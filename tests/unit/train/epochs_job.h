/*
 * A job that is nothing but epochs over a source of batches.
 */
#ifndef LS_TEST_EPOCHS_JOB_H
#define LS_TEST_EPOCHS_JOB_H

#include "train/jobs/epochs.h"

/* The loop and epochs of a model; both must stay where they are. */
void epochs_job_init(lsi_loop *loop, lsi_epochs *epochs, ls_group *group,
                     const lsi_model *model);

/* One epoch, or what is left of it; rank 0 gets the totals of all ranks. */
ls_status epochs_job_run(lsi_loop *loop, lsi_epochs *epochs);

#endif
