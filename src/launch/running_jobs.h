/*
 * The jobs of this user that run on this machine, as /proc shows their ranks:
 * nothing is written anywhere that could outlive them.
 */
#ifndef LS_LAUNCH_RUNNING_JOBS_H
#define LS_LAUNCH_RUNNING_JOBS_H

#include <stddef.h>
#include <sys/types.h>

#include "lockstep/status.h"

typedef struct lsi_job_found {
    char run[200];    /* LOCKSTEP_RUN */
    char id[40];      /* LOCKSTEP_JOB */
    int ranks;        /* that run now */
    int size;         /* that were started */
    int restart;      /* which attempt this is, from 0 */
    pid_t launcher;   /* who passes signals on to the ranks */
    double seconds;   /* since the first of the ranks was started */
    char command[64]; /* of the rank with the lowest number, cut */
    int first_rank;   /* that number */
} lsi_job_found;

/*
 * *out has *n jobs, the oldest first, and is freed by the caller with free(); a
 * process that is not this user's is not looked at. LS_ERR_SYSTEM without
 * /proc.
 */
ls_status lsi_find_jobs(lsi_job_found **out, size_t *n);

#endif
