/* Threads of the library. */
#ifndef LS_BASE_THREAD_H
#define LS_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/*
 * Starts a thread that receives no signals and must be joined. False if it
 * cannot start.
 */
bool lsi_thread_begin(void *(*fn)(void *), void *context, pthread_t *out);

/*
 * Starts a detached thread that receives no signals; it ends with the process.
 */
bool lsi_thread_watch(void *(*fn)(void *), void *context);

#endif
