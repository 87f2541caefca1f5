/* The environment variables that tell a rank its place in the job. */
#ifndef LS_LAUNCH_ENVIRONMENT_H
#define LS_LAUNCH_ENVIRONMENT_H

#include <stdbool.h>

#include "lockstep/status.h"

/* The place of a node in a job of several nodes. */
typedef struct lsi_job_place {
    int group, groups; /* GROUP_RANK of GROUP_WORLD_SIZE */
    int offset, world; /* RANK of its first rank, of WORLD_SIZE */
    int port;          /* MASTER_PORT, on the first node */
    int restart, restarts;
    int threads; /* most threads of a rank, since other nodes share this
                    machine; 0: no other nodes */
    char job[33], run[200];
    char master[256];   /* MASTER_ADDR */
    char endpoint[300]; /* LOCKSTEP_RENDEZVOUS */
    char interface[16]; /* interface that leads to the endpoint */
} lsi_job_place;

/* Properties shared by all ranks of a job. */
typedef struct lsi_job_identity {
    int ranks;
    int threads;
    int port;
    int restart, max_restarts; /* number of this attempt, most restarts */
    char id[33];            /* 128 random bits in hexadecimal: LOCKSTEP_JOB */
    const char *run_id;     /* LOCKSTEP_RUN, for all attempts */
    const char *role;       /* ROLE_NAME */
    const char *error_file; /* TORCHELASTIC_ERROR_FILE, or NULL */
    const char *crash_file; /* LOCKSTEP_CRASH_FILE, or NULL */
    const lsi_job_place *place; /* NULL: one node only */
} lsi_job_identity;

/* 128 random bits in hexadecimal. */
ls_status lsi_random_id(char out[33]);

/*
 * A new job with a random id, which is also its run_id. If `port` is 0, it gets
 * a port that is free now. run_id points into *job.
 */
ls_status lsi_job_identity_new(lsi_job_identity *job, int ranks, int threads,
                               int port);

/*
 * The identity of a job of several nodes, from the place of a node. *place must
 * outlive it.
 */
void lsi_job_identity_of_place(lsi_job_identity *job,
                               const lsi_job_place *place, int ranks,
                               int threads);

/* A port that is free now, on loopback or on all of this host's addresses. */
ls_status lsi_free_port(bool everywhere, int *port);

/*
 * This process's environment with the variables of one rank (by its index on
 * this node). Variables by which another launcher describes its ranks are
 * removed. *out is freed by lsi_environment_free.
 */
ls_status lsi_environment_new(const lsi_job_identity *job, int rank,
                              char ***out);
void lsi_environment_free(char **environment);

#endif
