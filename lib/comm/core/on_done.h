/*
 * Functions that are called when a request is done, by the thread that finds it
 * done. The thread calls them at the end of the library call in which it does,
 * when it holds no lock and has no other call in progress.
 */
#ifndef LS_COMM_CORE_ON_DONE_H
#define LS_COMM_CORE_ON_DONE_H

#include "comm/core/coprogress.h"
#include "comm/state/state.h"

void lsi_on_done_add(ls_group *group, lsi_on_done *completion);
/* Removes a function; whether it was still to be called. */
bool lsi_on_done_remove(ls_group *group, const lsi_on_done *completion);

/*
 * Calls the function now if it is still to be called, so that it can be used
 * again.
 */
void lsi_on_done_call_first(ls_group *group, lsi_on_done *completion);

void lsi_on_done_call(ls_group *group);

/*
 * At the end of a user's call: calls the functions due in this group, and in
 * others that this thread has moved meanwhile.
 */
static inline void lsi_on_done_deliver(ls_group *group)
{
    if (group->completions != NULL || lsi_coprogress_due(group))
        lsi_on_done_call(group);
}

#endif
