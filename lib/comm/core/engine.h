/*
 * Progress of all operations that a rank has in flight.
 */
#ifndef LS_COMM_CORE_ENGINE_H
#define LS_COMM_CORE_ENGINE_H

#include "comm/state/state.h"

/*
 * Appends a filled-in op (call, send, recv, candidates, scratch) to the queue
 * and publishes its arrival if it can. The op must stay in place until done.
 * For a user's op, call lsi_coprogress_take first.
 */
ls_status lsi_collective_submit(lsi_collective *op);

/*
 * Removes an op from the queue that will never be done, because its group has
 * failed, before its memory is used for something else.
 */
void lsi_collective_withdraw(lsi_collective *op);

/* Makes all progress that needs no waiting. Fails if the group has failed. */
ls_status lsi_progress(ls_group *group);

/*
 * Whether more ranks have arrived in the first collective since the last call
 * for it, if that would not show otherwise. Then the group has moved.
 */
bool lsi_arrivals_move(ls_group *group);

/* ---- for algorithms ------------------------------------------------------ */

/* Tells the others that this rank has reached its next phase. */
void lsi_collective_publish(lsi_collective *op);

/*
 * LS_OK if every rank has reached the phase that this rank published last,
 * LS_IN_PROGRESS if not yet.
 */
ls_status lsi_collective_arrived(lsi_collective *op);

/* Whether every rank has left collective `sequence` behind. */
bool lsi_all_completed(ls_group *group, uint64_t sequence);

#endif
