/* Starts one process with its complete setup. */
#ifndef LS_LAUNCH_SPAWN_H
#define LS_LAUNCH_SPAWN_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/cpuset.h"
#include "lockstep/status.h"

typedef struct lsi_spawn {
    char *const *argv;
    char *const *environment;
    const sigset_t *mask;       /* blocked signals */
    int input, output, error;   /* descriptors; -1: this process's own */
    const lsi_cpuset *place;    /* CPUs to bind it to; NULL: not bound */
    bool spared;                /* it ignores SIGUSR1 until it handles it */
    int orphan_guard;           /* from lsi_orphan_guard_open, or -1 */
    int *unguarded;             /* errno without a guard; or NULL */
    const struct rlimit *files; /* limit of descriptors; NULL: ours */
} lsi_spawn;

/*
 * Starts a process that leads a new process group. The kernel kills it when
 * this process dies. If the program cannot be run, *error_number is the reason
 * (else 0) and *pid is not written.
 */
ls_status lsi_spawn_process(const lsi_spawn *what, pid_t *pid,
                            int *error_number);

#endif
