/*
 * The partial sums of an unfinished epoch, of every rank, as a value of a
 * checkpoint.
 */
#ifndef LS_TRAIN_JOBS_PARTIAL_H
#define LS_TRAIN_JOBS_PARTIAL_H

#include "lockstep/group.h"
#include "train/jobs/totals.h"

typedef struct lsi_partial {
    lsi_totals totals; /* of this rank */
    double seconds;    /* that it has trained */
    double peak_bytes; /* most that it has held */
} lsi_partial;

/* That of all ranks as text; *out is the caller's (lsi_free). Collective. */
ls_status lsi_partial_text(ls_group *group, const lsi_partial *own, char **out);

/*
 * Back from the text. The totals are those of the saved ranks r with
 * r mod size = rank, in order; the others are the largest of all ranks.
 */
ls_status lsi_partial_parse(lsi_partial *own, const char *text, int rank,
                            int size);

#endif
