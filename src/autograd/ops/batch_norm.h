/*
 * What batch normalisations have in common, on one rank and over all.
 */
#ifndef LS_AUTOGRAD_OPS_BATCH_NORM_H
#define LS_AUTOGRAD_OPS_BATCH_NORM_H

#include "lockstep/autograd.h"

/*
 * Moves the running statistics of the arguments towards those of a batch of so
 * many rows: its mean and its unbiased variance, which is variance / divisor.
 * All is computed in double and rounded once. One row leaves the running
 * variance as it is, none both.
 */
void lsi_batch_norm_track(const ls_batch_norm_args *args, const float *mean,
                          const float *variance, double divisor, double rows);

#endif
