/*
 * What /proc/PID/stat says of a process.
 */
#ifndef LS_LAUNCH_PROCESS_STAT_H
#define LS_LAUNCH_PROCESS_STAT_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct lsi_process_stat {
    char state; /* Z: it has ended, and is not reaped */
    pid_t parent;
    unsigned long flags;        /* PF_... of linux/sched.h */
    unsigned long long started; /* in clock ticks since the boot */
    int processor;              /* where it ran last */
} lsi_process_stat;

/* False if there is no such process. */
bool lsi_process_stat_read(pid_t pid, lsi_process_stat *out);

#endif
