/*
 * Collectives with a count for each rank: where the blocks begin, and the part
 * of it that other ranks need.
 */
#ifndef LS_COMM_CORE_COUNTS_H
#define LS_COMM_CORE_COUNTS_H

#include "comm/state/state.h"

/* The counts of each rank; NULL where a rank sends or receives one block. */
typedef struct lsi_counts {
    const size_t *sends, *receives;
} lsi_counts;

/*
 * Notes the counts for an op that is about to be prepared, and sets the part of
 * the call that all ranks compare. The sums must have been checked.
 */
ls_status lsi_counts_note(lsi_block_table *counted, const ls_group *group,
                          const lsi_counts *counts, lsi_call *call);
void lsi_counts_free(lsi_block_table *counted);

/*
 * lsi_counts_publish writes the counts after this rank's offer; lsi_counts_read
 * reads those of a rank.
 */
void lsi_counts_publish(const lsi_collective *op);
void lsi_counts_read(lsi_collective *op, int rank);

#endif
