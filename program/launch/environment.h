/*
 * The environment variables by which a rank learns who it is.
 */
#ifndef LS_LAUNCH_ENVIRONMENT_H
#define LS_LAUNCH_ENVIRONMENT_H

#include <stdbool.h>

#include "lockstep/status.h"

/* The part of a node in a job of several. */
typedef struct lsi_job_place {
    int group, groups; /* GROUP_RANK of GROUP_WORLD_SIZE */
    int offset, world; /* RANK of its first rank, of WORLD_SIZE */
    int port;          /* MASTER_PORT, on the first node */
    int restart, restarts;
    int threads; /* of a rank at most, since other nodes are on this machine;
                    0: none are */
    char job[33], run[200];
    char master[256];   /* MASTER_ADDR */
    char endpoint[300]; /* LOCKSTEP_RENDEZVOUS */
    char interface[16]; /* that leads to it */
} lsi_job_place;

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
    const char *crash_file; /* LOCKSTEP_CRASH_FILE, or NULL */
    const lsi_job_place *place; /* NULL: there is one node */
} lsi_job_identity;

/* 128 random bits in hexadecimal. */
ls_status lsi_random_id(char out[33]);

/*
 * A new job with a random id, which is its run_id as well, and, if `port` is 0,
 * a port that is free now. run_id points into *job.
 */
ls_status lsi_job_identity_new(lsi_job_identity *job, int ranks, int threads,
                               int port);

/* One of several nodes: what that says of the job. *place must stay. */
void lsi_job_identity_of_place(lsi_job_identity *job,
                               const lsi_job_place *place, int ranks,
                               int threads);

/* A port that is free now, on loopback or on all of this host's addresses. */
ls_status lsi_free_port(bool everywhere, int *port);

/*
 * This process's environment with the variables of one rank (by its number on
 * this node) in it, and without those by which another launcher describes its
 * own ranks. *out is freed by lsi_environment_free.
 */
ls_status lsi_environment_new(const lsi_job_identity *job, int rank,
                              char ***out);
void lsi_environment_free(char **environment);

#endif
