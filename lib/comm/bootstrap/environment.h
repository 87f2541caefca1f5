/*
 * What the environment says about the job: the launcher's variables.
 */
#ifndef LS_COMM_BOOTSTRAP_ENVIRONMENT_H
#define LS_COMM_BOOTSTRAP_ENVIRONMENT_H

#include <stdbool.h>

#include "lockstep/status.h"

typedef struct lsi_world {
    int rank, size;
    int local_rank, local_size;
    const struct lsi_meeting *transport; /* how they meet; NULL: one rank */
    char name[64]; /* of the meeting point: the same on all ranks of a job */
    const char *named_by; /* what the name is made of, for errors */
    const char *job;      /* whose launcher may say who has ended; or NULL */
    /* Whether a rank that is awaited is known to have died; or NULL. */
    bool (*has_died)(const void *observer, int rank);
    const void *observer; /* is passed on */
} lsi_world;

/*
 * Torchrun's names first, then Open MPI's and MPICH's; any two that are both
 * set must agree. Slurm's are used only if none of those is set, because they
 * reach everything that a task starts, and only in a task that srun has
 * started: a batch script is none. With nothing set the world has one rank.
 * Ranks meet by MPI if not all are on this machine, or if LOCKSTEP_TRANSPORT
 * says so.
 */
ls_status lsi_world_from_env(lsi_world *out);

/* The name of a meeting point from any text: it is one of this user's. */
void lsi_world_set_name(lsi_world *world, const char *text);

#endif
