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

#endif
