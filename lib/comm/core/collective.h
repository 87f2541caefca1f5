/*
 * Filling in ops from arguments.
 */
#ifndef LS_COMM_CORE_COLLECTIVE_H
#define LS_COMM_CORE_COLLECTIVE_H

#include "comm/state/state.h"

/*
 * Prepares an op: algorithm candidates and scratch memory. Checks nothing but
 * memory. op->scratch is kept if it is large enough.
 */
ls_status lsi_collective_prepare(lsi_collective *op, ls_group *group,
                                 const lsi_call *call, const void *send,
                                 void *recv);

/*
 * Planned collectives of a group share scratch memory: one that is not in
 * flight needs none. So a group has as many blocks as were in flight at once.
 */
ls_status lsi_collective_reserve_scratch(lsi_collective *op);
void lsi_collective_spare_scratch(lsi_collective *op);
void lsi_spares_free(ls_group *group);

#endif
