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

/*
 * Takes the locks of guards that were added after before_fork. A thread may
 * have held one, and the child does not have that thread.
 */
static void take_added(void)
{
    lsi_fork_guard *const all = atomic_load(&guards);
    for (lsi_fork_guard *guard = all; guard != found; guard = guard->next)
        if (guard->lock != NULL) {
            (void)pthread_mutex_init(guard->lock, NULL);
            pthread_mutex_lock(guard->lock);
        }
    found = all;
}

static void in_child(void)
{
    take_added();
    for (lsi_fork_guard *guard = found; guard != NULL; guard = guard->next)
        if (guard->in_child != NULL)
            guard->in_child();
    unlock_all();
}

/*
 * Before there are threads: a fork that has already begun would not call what
 * is registered meanwhile.
 */
__attribute__((constructor)) static void watch_forks(void)
{
    (void)pthread_atfork(before_fork, unlock_all, in_child);
}

void lsi_guard_forks(lsi_fork_guard *guard)
{
    if (atomic_exchange(&guard->is_added, true))
        return; /* so only one thread writes `next` */
    guard->next = atomic_load(&guards);
    while (!atomic_compare_exchange_weak(&guards, &guard->next, guard))
        ;
}
