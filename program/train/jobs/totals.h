/*
 * Sums over samples from which means are made at the end; and those of an
 * unfinished epoch, of every rank, as a value of a checkpoint.
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

typedef struct lsi_partial {
    lsi_totals totals; /* of this rank */
    double seconds;    /* seconds of training */
    double peak_bytes; /* most bytes held at once */
} lsi_partial;

/*
 * The partials of all ranks as text; the caller frees *out (lsi_free).
 * Collective.
 */
ls_status lsi_partial_text(ls_group *group, const lsi_partial *own, char **out);

/*
 * Back from the text. The totals are those of the saved ranks r with
 * r mod size = rank, in order; the others are the largest of all ranks.
 */
ls_status lsi_partial_parse(lsi_partial *own, const char *text, int rank,
                            int size);

#endif
