/*
 * The jobs of this user that run on this machine, as /proc shows their ranks:
 * nothing is written anywhere that could outlive them.
 */
#ifndef LS_LAUNCH_RUNNING_JOBS_H
#define LS_LAUNCH_RUNNING_JOBS_H

#include <stddef.h>
#include <sys/types.h>

#include "base/cpuset.h"
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
    lsi_cpuset cpus;  /* on which one of the ranks may run */
} lsi_job_found;

/*
 * *out has *n jobs, the oldest first, and is freed by the caller with free(); a
 * process that is not this user's is not looked at. LS_ERR_SYSTEM without
 * /proc.
 */
ls_status lsi_find_jobs(lsi_job_found **out, size_t *n);

/*
 * The running job that a user's word names, as launch/job_name.h says: by its
 * id, or by the PID of its launcher or of one of its ranks.
 */
ls_status lsi_find_job(const char *name, lsi_job_found *out);

/* A rank that runs now. */
typedef struct lsi_rank_found {
    int rank;
    pid_t pid;
    int threads;     /* of its process, whatever they do */
    int last_cpu;    /* where its first thread ran last; -1: unknown */
    lsi_cpuset cpus; /* those that its first thread may use */
} lsi_rank_found;

/*
 * *out has *n ranks of that job (its `id`), in order, and is freed by the
 * caller with free(). Those that end meanwhile are left out.
 */
ls_status lsi_find_ranks(const char *id, lsi_rank_found **out, size_t *n);

#endif
