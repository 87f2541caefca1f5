#include "comm/core/on_done.h"

#include <assert.h>
#include <stdio.h>

#include "base/error.h"
#include "comm/health/failure.h"

enum { TEXT_BYTES = 1024 };

void lsi_on_done_add(ls_group *group, lsi_on_done *completion)
{
    lsi_on_done **link = &group->completions;
    for (; *link != NULL; link = &(*link)->next)
        assert(*link != completion);
    completion->next = NULL;
    *link = completion;
}

bool lsi_on_done_remove(ls_group *group, const lsi_on_done *completion)
{
    lsi_on_done **link = &group->completions;
    while (*link != NULL && *link != completion)
        link = &(*link)->next;
    if (*link == NULL)
        return false;
    *link = completion->next;
    return true;
}

/* Removes the first that is due from the list; its function may add others. */
static lsi_on_done *pop_due(ls_group *group)
{
    for (lsi_on_done **link = &group->completions; *link != NULL;
         link = &(*link)->next)
        if (*(*link)->done || group->failed) {
            lsi_on_done *due = *link;
            *link = due->next;
            return due;
        }
    return NULL;
}

/* A function is due when its request is done, or the group has failed. */
static void call_one(ls_group *group, lsi_on_done *due)
{
    const bool done = *due->done;
    assert(done || group->failed);
    due->call(due, done ? LS_OK : lsi_report_failure(group));
}

void lsi_on_done_call_first(ls_group *group, lsi_on_done *completion)
{
    if (lsi_on_done_remove(group, completion))
        call_one(group, completion);
}

static void call_due(ls_group *group)
{
    lsi_on_done *due;
    while ((due = pop_due(group)) != NULL)
        call_one(group, due);
}

/*
 * Restores the error message of the call itself after those of the functions.
 */
void lsi_on_done_call(ls_group *group)
{
    char text[TEXT_BYTES];
    ls_group *other;
    snprintf(text, sizeof(text), "%s", ls_last_error());
    call_due(group);
    while ((other = lsi_coprogress_borrow_completed(group)) != NULL) {
        call_due(other);
        lsi_coprogress_return_one(other);
    }
    lsi_restore_error(text);
}
