/*
 * Places of a group's ranks, 0..size-1: the order in which a sum over ranks
 * folds them all, and in which samples are dealt to them. On one node, and in a
 * deterministic group, the place is the rank. On M nodes with equally many
 * ranks, where M and that number are powers of two, the j-th rank of node i has
 * place i + jM. Folding each node and then the nodes is then the fold of
 * fold.def over places, as on one node. Other groups have ranks for places;
 * their sums depend on the nodes.
 */
#ifndef LS_COMM_API_PLACE_H
#define LS_COMM_API_PLACE_H

#include "comm/state/state.h"

int lsi_group_place(const ls_group *group, int rank);
int lsi_group_rank_at(const ls_group *group, int place);

/* Whether folding the nodes' ranks and then the nodes folds places. */
bool lsi_nodes_have_places(const lsi_internode *net);

#endif
