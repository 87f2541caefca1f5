/*
 * The job as the environment describes it: the launcher's variables.
 */
#ifndef LS_COMM_BOOTSTRAP_ENVIRONMENT_H
#define LS_COMM_BOOTSTRAP_ENVIRONMENT_H

#include <stdbool.h>

#include "lockstep/status.h"

typedef struct lsi_world {
    int rank, size;
    int local_rank, local_size;
    const struct lsi_meeting *transport; /* how ranks connect; NULL: one rank */
    char name[64]; /* of the meeting point: the same on all ranks of a job */
    const char *named_by; /* source of the name, for errors */
    const char *job;      /* its launcher publishes ended ranks; or NULL */
    /* Whether a rank that is awaited is known to have died; or NULL. */
    bool (*has_died)(const void *observer, int rank);
    const void *observer; /* argument of has_died */
} lsi_world;

/*
 * Reads Torchrun's variables first, then Open MPI's and MPICH's; any two that
 * are both set must agree. Slurm's are used only if none of these is set, as
 * all processes that a task starts inherit them. They are used only in a task
 * that srun has started, which a batch script is not. Without any variables the
 * world has one rank. Ranks connect by the default of transports.def for one
 * machine or several, or by LOCKSTEP_TRANSPORT.
 */
ls_status lsi_world_from_env(lsi_world *out);

/* Sets the name of a meeting point from any text; the name is this user's. */
void lsi_world_set_name(lsi_world *world, const char *text);

#endif
