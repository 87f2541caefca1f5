/*
 * Progress across groups. A group in which something is left in flight (a
 * request) makes progress with the other groups of its thread: while the thread
 * waits in one of them, it moves them all. Otherwise ranks that wait for each
 * other in two groups would do so for ever.
 *
 * A group may go from one thread to another although the first still moves it:
 * whoever uses a group takes it, and waits until nobody else is busy with it.
 * What happens to a group while it is moved stays with it: its failures are
 * reported when it is used.
 */
#ifndef LS_COMM_CORE_COPROGRESS_H
#define LS_COMM_CORE_COPROGRESS_H

#include "comm/state/state.h"

/* Something in the group, which this thread has taken, stays in flight. */
void lsi_coprogress_join(ls_group *group);

/* From another thread, if one moves it. */
void lsi_coprogress_take_over(const ls_group *group);

/* This thread uses the group from now on. */
static inline void lsi_coprogress_take(const ls_group *group)
{
    /* Acquires what the thread has done that moved it. */
    if (atomic_load_explicit(&group->coprogress.mover, memory_order_acquire) !=
        0)
        lsi_coprogress_take_over(group);
}

/* The group is about to be closed. */
void lsi_coprogress_leave(ls_group *group);

/* Whether this thread may have to move others than this group. */
bool lsi_coprogress_due(const ls_group *group);

/* Moves all others; whether anything has moved. */
bool lsi_coprogress_move(const ls_group *group);

/*
 * Another group of this thread in which something is done (on_done.h); or NULL.
 * Nobody can take it until it is returned.
 */
ls_group *lsi_coprogress_borrow_completed(const ls_group *group);
void lsi_coprogress_return_one(ls_group *borrowed);

/* ---- for a longer while -------------------------------------------------- */

/* All others, linked by next_borrowed; nobody can take them until returned. */
ls_group *lsi_coprogress_borrow(const ls_group *group);
bool lsi_coprogress_run(ls_group *borrowed);
void lsi_coprogress_return(ls_group *borrowed);

/* Whether another thread waits for one that is borrowed. */
bool lsi_coprogress_wanted(const ls_group *borrowed);

#endif
