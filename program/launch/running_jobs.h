/*
 * The jobs of this user on this machine, found by their ranks in /proc. Nothing
 * is stored that could outlive them.
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
    int ranks;        /* ranks that run now */
    int size;         /* ranks that were started */
    int restart;      /* number of this attempt, from 0 */
    pid_t launcher;   /* process that forwards signals to the ranks */
    double seconds;   /* since the start of the first rank */
    char command[64]; /* command of first_rank, cut */
    int first_rank;   /* lowest number of a running rank */
    lsi_cpuset cpus;  /* CPUs on which any of the ranks may run */
} lsi_job_found;

/*
 * *out has *n jobs, the oldest first, and is freed by the caller with free().
 * Processes of other users are ignored. LS_ERR_SYSTEM without /proc.
 */
ls_status lsi_find_jobs(lsi_job_found **out, size_t *n);

/*
 * The running job that a user's word names, as in launch/job_name.h: by its id,
 * or by the PID of its launcher or of one of its ranks.
 */
ls_status lsi_find_job(const char *name, lsi_job_found *out);

/* A rank that runs now. */
typedef struct lsi_rank_found {
    int rank;
    pid_t pid;
    int threads;     /* threads of its process, running or not */
    int last_cpu;    /* last CPU of its first thread; -1: unknown */
    lsi_cpuset cpus; /* CPUs that its first thread may use */
} lsi_rank_found;

/*
 * *out has *n ranks of the job with this `id`, in order, and is freed by the
 * caller with free(). Ranks that end meanwhile are left out.
 */
ls_status lsi_find_ranks(const char *id, lsi_rank_found **out, size_t *n);

#endif
