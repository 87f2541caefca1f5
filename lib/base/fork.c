#include "base/fork.h"

#include <stddef.h>

static _Atomic(lsi_fork_guard *) guards;

/* Guards that the fork of this thread has found: more may be added meanwhile.
 */
static _Thread_local lsi_fork_guard *found;

static void before_fork(void)
{
    found = atomic_load(&guards);
    for (lsi_fork_guard *guard = found; guard != NULL; guard = guard->next)
        if (guard->lock != NULL)
            pthread_mutex_lock(guard->lock);
}

static void unlock_all(void)
{
    for (lsi_fork_guard *guard = found; guard != NULL; guard = guard->next)
        if (guard->lock != NULL)
            pthread_mutex_unlock(guard->lock);
}

static void in_child(void)
{
    for (lsi_fork_guard *guard = found; guard != NULL; guard = guard->next)
        if (guard->in_child != NULL)
            guard->in_child();
    unlock_all();
}

static void watch_forks(void)
{
    (void)pthread_atfork(before_fork, unlock_all, in_child);
}

void lsi_guard_forks(lsi_fork_guard *guard)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (atomic_exchange(&guard->is_added, true))
        return; /* so only one thread writes `next` */
    (void)pthread_once(&once, watch_forks);
    guard->next = atomic_load(&guards);
    while (!atomic_compare_exchange_weak(&guards, &guard->next, guard))
        ;
}
