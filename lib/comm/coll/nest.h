/*
 * Collectives inside collectives.
 */
#ifndef LS_COMM_COLL_NEST_H
#define LS_COMM_COLL_NEST_H

#include "comm/state/state.h"

/*
 * Prepares an op that is a part of another one and moves little or in place: it
 * needs no memory of its own.
 */
void lsi_collective_nest(lsi_collective *op, ls_group *group,
                         const lsi_call *call, const void *send, void *recv);

#endif
