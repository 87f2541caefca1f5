/* Locks and state of this process that a fork must leave in order. */
#ifndef LS_BASE_FORK_H
#define LS_BASE_FORK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

typedef struct lsi_fork_guard {
    pthread_mutex_t *lock;  /* held during a fork, or NULL */
    void (*in_child)(void); /* called in the child, under the locks; or NULL */
    struct lsi_fork_guard *next;
    atomic_bool is_added;
} lsi_fork_guard;

/*
 * Guards every fork from now on. `guard` is static; a second call with it does
 * nothing. The last lock added is the first one taken, and the last function
 * added is the first one called.
 */
void lsi_guard_forks(lsi_fork_guard *guard);

#endif
