/*
 * The slices of a run (--slices): into how many parts of equal samples the
 * global batch is cut, on any number of ranks (docs/concepts/numerics.md).
 */
#ifndef LS_TRAIN_SLICES_H
#define LS_TRAIN_SLICES_H

#include "lockstep/autograd.h"
#include "lockstep/group.h"

/*
 * Slices of a rank's batch, for `all` slices of a global batch of `samples`
 * samples, which messages call `unit`. LS_ERR_ARGUMENT if the ranks cannot
 * divide the slices, or if there are more slices than samples. Local.
 */
ls_status lsi_slices_of_rank(const ls_group *group, int64_t all,
                             int64_t samples, const char *unit, int *out);

/* The samples of this rank's batch of `count`, for ls_tape_set_samples. */
ls_tape_samples lsi_samples_of_rank(const ls_group *group, int64_t count,
                                    int slices);

#endif
