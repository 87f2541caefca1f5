/*
 * Functions that are called when something is done: by the thread that finds it
 * so, at the end of the call in which it does, when nothing of the library is
 * locked or under way.
 */
#ifndef LS_COMM_CORE_ON_DONE_H
#define LS_COMM_CORE_ON_DONE_H

#include "comm/core/coprogress.h"
#include "comm/state/state.h"

void lsi_on_done_add(ls_group *group, lsi_on_done *completion);
/* Whether it was to be called yet. */
bool lsi_on_done_remove(ls_group *group, const lsi_on_done *completion);

/* Calls what is due now if that has not been done: it is to be used again. */
void lsi_on_done_call_first(ls_group *group, lsi_on_done *completion);

void lsi_on_done_call(ls_group *group);

/*
 * At the end of a call of a user's: those of this group, and of others that
 * this thread has moved meanwhile.
 */
static inline void lsi_on_done_deliver(ls_group *group)
{
    if (group->completions != NULL || lsi_coprogress_due(group))
        lsi_on_done_call(group);
}

#endif
