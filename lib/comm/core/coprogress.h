/*
 * Progress across groups. A group with a request in flight makes progress with
 * the other groups of its thread: while the thread waits in one group, it moves
 * them all. Otherwise ranks that wait for each other in two groups would
 * deadlock.
 *
 * A group may pass from one thread to another although the first still moves
 * it. A thread that uses a group takes it, and waits until no other thread is
 * busy with it. A group keeps its failures while it is moved: they are reported
 * when it is used.
 */
#ifndef LS_COMM_CORE_COPROGRESS_H
#define LS_COMM_CORE_COPROGRESS_H

#include "comm/state/state.h"

/* A request stays in flight in the group, which this thread has taken. */
void lsi_coprogress_join(ls_group *group);

/* Takes the group over from another thread, if one moves it. */
void lsi_coprogress_take_over(const ls_group *group);

/* This thread uses the group from now on. */
static inline void lsi_coprogress_take(const ls_group *group)
{
    /* Acquires the stores of the thread that moved it. */
    if (atomic_load_explicit(&group->coprogress.mover, memory_order_acquire) !=
        0)
        lsi_coprogress_take_over(group);
}

/* The group is about to be closed. */
void lsi_coprogress_leave(ls_group *group);

/* Whether this thread may have to move groups other than this one. */
bool lsi_coprogress_due(const ls_group *group);

/* Moves all other groups of this thread; whether anything has moved. */
bool lsi_coprogress_move(const ls_group *group);

/*
 * Another group of this thread with a function to call (on_done.h), or NULL. No
 * thread can take it until it is returned.
 */
ls_group *lsi_coprogress_borrow_completed(const ls_group *group);
void lsi_coprogress_return_one(ls_group *borrowed);

/* ---- for a longer while -------------------------------------------------- */

/*
 * All other groups of this thread, linked by next_borrowed. No thread can take
 * them until they are returned.
 */
ls_group *lsi_coprogress_borrow(const ls_group *group);
bool lsi_coprogress_run(ls_group *borrowed);
void lsi_coprogress_return(ls_group *borrowed);

/* Whether another thread waits for one of the borrowed groups. */
bool lsi_coprogress_wanted(const ls_group *borrowed);

#endif
