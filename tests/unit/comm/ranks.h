/*
 * Ranks for tests: as threads of this process, or as processes.
 */
#ifndef LS_TEST_COMM_RANKS_H
#define LS_TEST_COMM_RANKS_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

#include "lockstep/group.h"

/* cmocka's assertions belong to the main thread; these work on any rank. */
#define CHECK(condition)                                                       \
    do {                                                                       \
        if (!(condition)) {                                                    \
            fprintf(stderr, "%s:%d: not true: %s (last error: %s)\n",          \
                    __FILE__, __LINE__, #condition, ls_last_error());          \
            abort();                                                           \
        }                                                                      \
    } while (0)

#define CHECK_OK(call) CHECK((call) == LS_OK)

/*
 * Asserts that something takes less than a limit, in seconds. `took` runs it
 * and returns its time. It has five tries, as a busy machine may hold up any of
 * them.
 */
#define CHECK_QUICK(took, seconds)                                             \
    do {                                                                       \
        int tries_ = 5;                                                        \
        while (tries_ > 0 && !((took) < (seconds)))                            \
            tries_--;                                                          \
        CHECK(tries_ > 0 && #took " < " #seconds);                             \
    } while (0)

typedef void rank_fn(ls_group *group, void *argument);

/* Runs fn on `size` threads, each with its group; closes the groups. */
void run_threads(int size, rank_fn *fn, void *argument);

/* The same with processes that find each other by the environment. */
void run_processes(int size, rank_fn *fn, void *argument);

/* Starts processes and does not wait: pids[rank]. They exit with 0. */
void start_processes(int size, rank_fn *fn, void *argument, pid_t *pids);

/* Waits; the status as waitpid gives it. */
int wait_process(pid_t pid);

#endif
