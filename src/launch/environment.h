/*
 * The environment variables by which a rank learns who it is.
 */
#ifndef LS_LAUNCH_ENVIRONMENT_H
#define LS_LAUNCH_ENVIRONMENT_H

#include "lockstep/status.h"

/* What all ranks of a job have in common. */
typedef struct lsi_job_identity {
    int ranks;
    int threads;
    int port;
    int restart, max_restarts; /* which attempt this is, and of how many */
    char id[33];            /* 128 random bits in hexadecimal: LOCKSTEP_JOB */
    const char *run_id;     /* of all attempts together: LOCKSTEP_RUN */
    const char *role;       /* ROLE_NAME */
    const char *error_file; /* TORCHELASTIC_ERROR_FILE, or NULL */
} lsi_job_identity;

/* 128 random bits in hexadecimal. */
ls_status lsi_random_id(char out[33]);

/*
 * A new job with a random id, which is its run_id as well, and, if `port` is 0,
 * a port that is free now. run_id points into *job.
 */
ls_status lsi_job_identity_new(lsi_job_identity *job, int ranks, int threads,
                               int port);

/*
 * This process's environment with the variables of one rank in it, and without
 * those by which another launcher describes its own ranks. *out is freed by
 * lsi_environment_free.
 */
ls_status lsi_environment_new(const lsi_job_identity *job, int rank,
                              char ***out);
void lsi_environment_free(char **environment);

#endif
