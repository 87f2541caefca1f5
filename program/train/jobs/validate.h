/*
 * Distributed validation.
 */
#ifndef LS_TRAIN_JOBS_VALIDATE_H
#define LS_TRAIN_JOBS_VALIDATE_H

#include "lockstep/group.h"
#include "train/jobs/images.h"
#include "train/jobs/totals.h"

typedef struct lsi_validated {
    lsi_totals own; /* of this rank's share */
    lsi_totals all; /* on rank 0; each sample counts once */
} lsi_validated;

/*
 * Evaluates the model on all samples. Rank 0 deals out whole batches, each rank
 * evaluates its share and rank 0 gets the totals, which do not depend on the
 * number of ranks. The tape is left training.
 * Collective; *agreed as in comm/api/outcome.h.
 */
ls_status lsi_validate(ls_group *group, const lsi_model *model, ls_tape *tape,
                       lsi_images *images, lsi_validated *out, bool *agreed);

#endif
