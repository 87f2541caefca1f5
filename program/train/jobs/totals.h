/*
 * Sums over samples from which means are made at the end.
 */
#ifndef LS_TRAIN_JOBS_TOTALS_H
#define LS_TRAIN_JOBS_TOTALS_H

#include "lockstep/group.h"
#include "model/nets/model.h"

typedef struct lsi_totals {
    double loss;   /* sum over samples */
    double hits;   /* samples whose largest logit is at the label */
    double weight; /* samples */
} lsi_totals;

/* Adds a batch whose forward pass went well. */
ls_status lsi_totals_add(lsi_totals *totals, const lsi_forward *forward);

/* Rank 0 gets the sums over all ranks; the others keep theirs. Collective. */
ls_status lsi_totals_reduce(lsi_totals *totals, ls_group *group);

/* Means; 0 without samples. */
double lsi_totals_loss(const lsi_totals *totals);
double lsi_totals_accuracy(const lsi_totals *totals);

#endif
