#include "observe/lock.h"

#include <assert.h>
#include <stddef.h>

#include "base/fork.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static lsi_fork_guard guard = {.lock = &lock};
static _Thread_local bool inside;

static void guard_forks(void)
{
    lsi_guard_forks(&guard);
}

void lsi_observe_lock(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    assert(!inside);
    (void)pthread_once(&once, guard_forks);
    pthread_mutex_lock(&lock);
    inside = true;
}

void lsi_observe_unlock(void)
{
    assert(inside);
    inside = false;
    pthread_mutex_unlock(&lock);
}

bool lsi_observe_enter(void)
{
    if (inside)
        return false;
    lsi_observe_lock();
    return true;
}
