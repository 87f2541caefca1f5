/*
 * Threads beside the program's own.
 */
#ifndef LS_BASE_THREAD_H
#define LS_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/*
 * A thread beside the program's own, which takes no signals and is to be
 * joined. False if there is none.
 */
bool lsi_thread_begin(void *(*fn)(void *), void *context, pthread_t *out);

/* The same for one that nobody joins: it ends with the process. */
bool lsi_thread_watch(void *(*fn)(void *), void *context);

#endif
