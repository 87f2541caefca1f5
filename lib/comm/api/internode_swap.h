/*
 * Exchanges blocks between nodes.
 */
#ifndef LS_COMM_API_INTERNODE_SWAP_H
#define LS_COMM_API_INTERNODE_SWAP_H

#include "lockstep/group.h"

/* The number of the group's nodes, and the node of a rank. */
int lsi_node_count(const ls_group *group);
int lsi_node_of(const ls_group *group, int rank);

/* The rank that stands for `rank` on a node: itself on its own node. */
int lsi_counterpart(const ls_group *group, int rank, int node);

/*
 * The nodes are runs of `replicas` nodes, which divides their number, that keep
 * the same blocks. Whether a rank is on a node of this node's run.
 */
bool lsi_node_is_replica(const ls_group *group, int rank, int replicas);

/* Whether lsi_internode_swap brings a rank's block to this rank. */
bool lsi_internode_receives(const ls_group *group, int rank, int replicas);

/*
 * Each node has one copy of a vector in which rank r owns block r. Receives the
 * blocks of the ranks of this node's replicas: each rank those of its
 * counterparts. The other ranks of the node see them after a barrier.
 */
ls_status lsi_internode_swap(ls_group *group, void *vector, size_t block,
                             int replicas);

#endif
