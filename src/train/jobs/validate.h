/*
 * Distributed validation.
 */
#ifndef LS_TRAIN_JOBS_VALIDATE_H
#define LS_TRAIN_JOBS_VALIDATE_H

#include "lockstep/group.h"
#include "train/jobs/images.h"
#include "train/jobs/totals.h"

/*
 * Evaluates the model on all samples. Rank 0 deals them out, each rank
 * evaluates its share and rank 0 gets the totals, in which each sample counts
 * once. The tape is left training. Collective; *agreed as in
 * comm/api/outcome.h.
 */
ls_status lsi_validate(ls_group *group, const lsi_model *model, ls_tape *tape,
                       lsi_images *images, lsi_totals *totals, bool *agreed);

#endif
