/*
 * The order in which a group folds what its ranks contribute. On one node, and
 * in a deterministic group, this is the order of fold.def over all ranks. Other
 * groups fold the ranks of each node, and then the results of the nodes, as the
 * pipeline does (pipeline.h). So the bits of a sum depend neither on its length
 * nor on the algorithm.
 */
#ifndef LS_COMM_COLL_NODES_BY_NODES_H
#define LS_COMM_COLL_NODES_BY_NODES_H

#include "comm/state/state.h"

/* dst = the reduction of one source of each rank, in the group's order. */
void lsi_reduce_ranks(const lsi_collective *op, void *dst,
                      const void *const *srcs, size_t elements);

#endif
