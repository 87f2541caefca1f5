/*
 * Filling in ops from arguments.
 */
#ifndef LS_COMM_COLLECTIVE_H
#define LS_COMM_COLLECTIVE_H

#include "comm/state.h"

/*
 * Prepares an op: algorithm candidates and scratch memory. Checks nothing but
 * memory. op->scratch is kept if it is large enough.
 */
ls_status lsi_collective_prepare(lsi_collective *op, ls_group *group,
                                 const lsi_call *call, const void *send,
                                 void *recv);

/*
 * Prepares an op that is a part of another one and moves little or in place: it
 * needs no memory of its own.
 */
void lsi_collective_nest(lsi_collective *op, ls_group *group,
                         const lsi_call *call, const void *send, void *recv);

/* All-gather of `bytes` (<= LSI_FLAT_BYTES) from each rank, as `call`. */
ls_status lsi_exchange(ls_group *group, const lsi_call *call, const void *send,
                       size_t bytes, void *recv);

#endif
