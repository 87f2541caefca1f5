#include "base/thread.h"

#include <signal.h>
#include <stddef.h>

bool lsi_thread_begin(void *(*fn)(void *), void *context, pthread_t *out)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(out, NULL, fn, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed == 0;
}

bool lsi_thread_watch(void *(*fn)(void *), void *context)
{
    pthread_t watcher;
    if (!lsi_thread_begin(fn, context, &watcher))
        return false;
    pthread_detach(watcher);
    return true;
}
