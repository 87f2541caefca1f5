/*
 * The comparisons of --check-replicas, and their messages.
 */
#ifndef LS_TRAIN_COPIES_H
#define LS_TRAIN_COPIES_H

#include <stdint.h>

#include "lockstep/parallel.h"
#include "train/recipe.h"

/* Rank 0 logs a warning if some data have no copies to compare. */
void lsi_copies_warn(const ls_ddp *ddp, const ls_group *group,
                     const ls_ddp_options *options);

/*
 * Ahead of an update: compares gradients, and every `every` steps weights and
 * state; 0: nothing. Under some strategies the update replaces copies by their
 * owner's. Collective.
 */
ls_status lsi_copies_compare(ls_ddp *ddp, const lsi_stepper *stepper,
                             int64_t every);

/*
 * Adds to the last error, of copies that differ, where the run can continue:
 * with the checkpoint of step `saved` in the folder, unless that is 0.
 */
ls_status lsi_copies_fail(ls_status status, const char *folder, int64_t saved);

#endif
