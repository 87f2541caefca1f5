/*
 * What the algorithms that only move data have in common.
 */
#ifndef LS_COMM_COLL_MOVE_MOVE_H
#define LS_COMM_COLL_MOVE_MOVE_H

#include "comm/state/state.h"

/* Counts the bytes that other ranks take from this one. */
void lsi_count_moved(const lsi_collective *op);

/* Copies what this rank takes from itself, unless it is in place already. */
void lsi_move_own(const lsi_collective *op);

#endif
