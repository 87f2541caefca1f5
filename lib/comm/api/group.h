/*
 * Making a group once its memory is there.
 */
#ifndef LS_COMM_API_GROUP_H
#define LS_COMM_API_GROUP_H

#include "comm/state/state.h"

typedef struct lsi_membership {
    int rank, size;
    int sharers;     /* number of members on this node */
    int node_rank;   /* of this rank in the job */
    uint64_t offset; /* of the control region in the job's memory */
    bool spans; /* ranks are on several nodes: one of comm/net/internode.h's */
} lsi_membership;

/*
 * Maps the control region and enters this rank as a member; sends nothing to
 * the other ranks. Takes over one reference to the node, on failure too.
 */
ls_status lsi_group_open(lsi_node_memory *node, lsi_membership membership,
                         ls_group **out);

/* As one of the first group of a job, in which all ranks are on one node. */
static inline lsi_membership lsi_first_membership(int rank, int size)
{
    return (lsi_membership){.rank = rank,
                            .size = size,
                            .sharers = size,
                            .node_rank = rank,
                            .offset = LSI_FIRST_REGION};
}

/* Of the job's memory the first group has been opened in, by its rank 0. */
void lsi_job_begin(const ls_group *first);

/* The longest timeout that a program may set, in seconds. */
#define LSI_MAX_TIMEOUT 1e9

/* The default timeout in seconds: LOCKSTEP_TIMEOUT, or 300. */
ls_status lsi_default_timeout(double *seconds);

/*
 * Checks a program's timeout, in seconds, and replaces LS_TIMEOUT_DEFAULT by
 * the default. `what` is the public function.
 */
ls_status lsi_timeout_of(const char *what, double *seconds);

/* Sets state that depends on the members, once all have entered. */
void lsi_group_look_around(ls_group *group);

/* Waits for all members, looks around, adopts LOCKSTEP_SELECT. Collective. */
ls_status lsi_group_settle(ls_group *group);

/*
 * Makes a group of the same ranks with a separate queue. Its collectives may
 * start at different places among the collectives of `group` on different
 * ranks. It reduces the shared buffers of `group` in place, and counts into the
 * counters of `group`. No shared buffers are allocated with it. Close it before
 * `group`. Collective.
 */
ls_status lsi_group_dup(ls_group *group, ls_group **out);

#endif
