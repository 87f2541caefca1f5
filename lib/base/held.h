/* The owner of a mutex, for assertions: free in builds without them. */
#ifndef LS_BASE_HELD_H
#define LS_BASE_HELD_H

#include <pthread.h>
#include <stdbool.h>
#include <unistd.h>

/* Whether this thread holds the mutex. True where the C library cannot tell. */
static inline bool lsi_mutex_held(const pthread_mutex_t *mutex)
{
#ifdef __GLIBC__
    return mutex->__data.__owner == gettid();
#else
    (void)mutex;
    return true;
#endif
}

#endif
