/*
 * Exchanges blocks between nodes.
 */
#ifndef LS_COMM_API_INTERNODE_SWAP_H
#define LS_COMM_API_INTERNODE_SWAP_H

#include "lockstep/group.h"

/*
 * Each node has one copy of a vector in which rank r owns block r. Receives the
 * blocks of other nodes' ranks: each rank those of its counterparts.
 */
ls_status lsi_internode_swap(ls_group *group, void *vector, size_t block);

#endif
