/*
 * Collectives in which ranks have counts of their own: where the blocks begin,
 * and what the others have to know of it.
 */
#ifndef LS_COMM_CORE_COUNTS_H
#define LS_COMM_CORE_COUNTS_H

#include "comm/state/state.h"

/* Of each rank; NULL where there is only one block. */
typedef struct lsi_counts {
    const size_t *sends, *receives;
} lsi_counts;

/*
 * Notes them for an op that is about to be prepared, and in the call what all
 * ranks compare. Their sums must have been checked.
 */
ls_status lsi_counts_note(lsi_block_table *counted, const ls_group *group,
                          const lsi_counts *counts, lsi_call *call);
void lsi_counts_free(lsi_block_table *counted);

/* Puts them behind this rank's offer; takes what a rank has put there. */
void lsi_counts_publish(const lsi_collective *op);
void lsi_counts_hear(lsi_collective *op, int rank);

#endif
