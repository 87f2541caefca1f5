/*
 * A clock that a test sets: the program is linked so that the library's
 * lsi_clock_ns is this one.
 */
#ifndef LS_TEST_COMM_CLOCKS_H
#define LS_TEST_COMM_CLOCKS_H

#include <stdatomic.h>
#include <stdint.h>

/* How far it is ahead of the real one, and how much each look adds to that. */
extern _Atomic uint64_t clock_ahead_ns, clock_step_ns;

/* How often somebody has looked. */
extern atomic_int clock_looks;

/* The real clock again, from 0. */
void clock_reset(void);

#endif
