/*
 * Making a group once its memory is there.
 */
#ifndef LS_COMM_API_GROUP_H
#define LS_COMM_API_GROUP_H

#include "comm/state/state.h"

typedef struct lsi_membership {
    int rank, size;
    int sharers;     /* how many of them are on this node */
    int node_rank;   /* of this rank in the job */
    uint64_t offset; /* of the control region in the job's memory */
    bool spans; /* ranks are on several nodes: one of comm/net/internode.h's */
} lsi_membership;

/*
 * Maps the control region and enters this rank as a member; sends
 * nothing to the others. Takes one reference to the node, on failure too.
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

/* The longest that a program may ask for, in seconds. */
#define LSI_MAX_TIMEOUT 1e9

/* Seconds: LOCKSTEP_TIMEOUT, or 300. */
ls_status lsi_default_timeout(double *seconds);

/* What a timeout of a program's stands for; `what` is the public function. */
ls_status lsi_timeout_of(const char *what, double *seconds);

/* Learns what depends on who the members are, once all have entered. */
void lsi_group_look_around(ls_group *group);

/* Waits for all members, looks around, adopts LOCKSTEP_SELECT. Collective. */
ls_status lsi_group_settle(ls_group *group);

/*
 * Makes a group of the same ranks with a queue of its own, so that what is
 * started there need not come in the same place among the collectives of
 * `group` on all ranks. It reduces the shared buffers of `group` in place, and
 * counts into the counters of `group`. No shared buffers are allocated with
 * it. To be closed before `group`. Collective.
 */
ls_status lsi_group_dup(ls_group *group, ls_group **out);

#endif
