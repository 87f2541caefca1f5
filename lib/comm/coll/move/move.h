/*
 * Functions shared by the algorithms that only move data.
 */
#ifndef LS_COMM_COLL_MOVE_MOVE_H
#define LS_COMM_COLL_MOVE_MOVE_H

#include "comm/state/state.h"

/* Counts the bytes that other ranks take from this one. */
void lsi_count_moved(const lsi_collective *op);

/* Copies the data that this rank sends to itself, unless it is in place. */
void lsi_move_own(const lsi_collective *op);

#endif
