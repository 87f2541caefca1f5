/*
 * Waking sleeping ranks (sleep.h). All ranks of a group sleep on one futex
 * word, its bell. The bits of FUTEX_WAKE_BITSET reach one rank (and those 32
 * apart) or all.
 */
#ifndef LS_COMM_STATE_BELL_H
#define LS_COMM_STATE_BELL_H

#include "comm/state/state.h"

/* Wakes all ranks, or one. */
void lsi_wake_all(ls_group *group);
void lsi_wake_rank(ls_group *group, int rank);

/* The bits on which a rank sleeps. */
uint32_t lsi_bell_bit(int rank);

#endif
