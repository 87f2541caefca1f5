/*
 * The algorithms that there are. Each row of algorithms.def is one; its file
 * explains the steps, what they cost and what they need.
 */
#ifndef LS_COMM_COLL_ALGORITHM_H
#define LS_COMM_COLL_ALGORITHM_H

#include "comm/core/engine.h"
#include "comm/state/algorithm.h"
#include "comm/state/state.h"

#define X(operation, name, in_cells, own_order, needs, ahead, run, scratch)    \
    ls_status run(lsi_collective *op);
#include "comm/coll/algorithms.def"
#undef X

/* All rows, from 0; NULL after the last. */
const lsi_algorithm *lsi_algorithm_at(int index);

/* The algorithm with that name for an operation, or NULL. */
const lsi_algorithm *lsi_algorithm_find(lsi_operation operation,
                                        const char *name, size_t length);

/* "flat, direct, staged": those of an operation. Returns text. */
const char *lsi_algorithm_names(lsi_operation operation, char *text,
                                size_t bytes);

/* Those that can begin before the others have arrived. */
bool lsi_reduce_packed_ahead(lsi_collective *op);
bool lsi_reduce_staged_ahead(lsi_collective *op);
bool lsi_move_staged_ahead(lsi_collective *op);

/* Those that need private memory. */
size_t lsi_all_gather_nodes_scratch(const lsi_collective *op);
size_t lsi_all_reduce_ring_scratch(const lsi_collective *op);
size_t lsi_reduce_butterfly_scratch(const lsi_collective *op);
size_t lsi_all_reduce_doubling_scratch(const lsi_collective *op);
size_t lsi_all_reduce_halving_scratch(const lsi_collective *op);
size_t lsi_rails_nodes_scratch(const lsi_collective *op);
size_t lsi_reduce_scatter_nodes_scratch(const lsi_collective *op);
size_t lsi_reduce_copy_scratch(const lsi_collective *op);
size_t lsi_move_pairs_scratch(const lsi_collective *op);

#endif
