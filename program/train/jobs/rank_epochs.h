/*
 * What an epoch was on each rank: its loss and accuracy on the images that it
 * was given, and what it took.
 */
#ifndef LS_TRAIN_JOBS_RANK_EPOCHS_H
#define LS_TRAIN_JOBS_RANK_EPOCHS_H

#include "lockstep/group.h"
#include "train/jobs/totals.h"

/* Numbers in F64 only: it is sent as it is. */
typedef struct lsi_rank_epoch {
    double train_loss, train_accuracy;
    double train_seconds, waited_seconds; /* waited for data */
    double images;                        /* that it has trained with */
    double val_loss, val_accuracy;        /* of its share of the validation */
    double peak_bytes;                    /* most that it held at once */
} lsi_rank_epoch;

/* Room for those of all ranks, on rank 0; NULL on the others. lsi_free. */
ls_status lsi_rank_epochs_new(const ls_group *group, lsi_rank_epoch **out);

/* What it has come to in training and in validation. */
void lsi_rank_epoch_train(lsi_rank_epoch *own, const lsi_totals *totals);
void lsi_rank_epoch_validate(lsi_rank_epoch *own, const lsi_totals *totals);

/* Rank 0 gets those of all ranks. One collective. */
ls_status lsi_rank_epochs_gather(ls_group *group, const lsi_rank_epoch *own,
                                 lsi_rank_epoch *all);

/* The largest time, time of waiting and peak; the rest is left alone. */
void lsi_rank_epochs_most(const lsi_rank_epoch *all, int n,
                          lsi_rank_epoch *most);

#endif
