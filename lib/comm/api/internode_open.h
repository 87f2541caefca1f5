/*
 * Opening and closing groups that span nodes.
 */
#ifndef LS_COMM_API_INTERNODE_OPEN_H
#define LS_COMM_API_INTERNODE_OPEN_H

#include "comm/net/internode.h"

/* The members of a group that spans nodes. */
typedef struct lsi_internode_plan {
    const lsi_wire *wire;
    int rank, size;
    uint64_t job;     /* the same on all nodes, and not that of any of them */
    const int *world; /* numbers in the job, by rank */
    const int *peer;  /* numbers on the wire, by rank: held, and taken over */
    const int *id;    /* by rank: from lsi_internode_new_id, for this group */
    const int *place; /* any numbers, equal for ranks of one node */
    ls_group *local;  /* taken over, on failure too */
    uint64_t offset;  /* of the control region in the node's memory */
} lsi_internode_plan;

/* Opens this rank's side; sends nothing to the other ranks. */
ls_status lsi_internode_open(const lsi_internode_plan *plan, ls_group **out);

/*
 * Opens a part of a group, where both span nodes. The places of its members are
 * filled in from the whole.
 */
ls_status lsi_internode_open_part(const ls_group *whole, const int *members,
                                  lsi_internode_plan plan, ls_group **out);

/*
 * Exchanges host names, pids and CPUs with the ranks of other nodes, once all
 * have opened. Collective. Does nothing if all ranks are on one node.
 */
ls_status lsi_internode_introduce(ls_group *group);

/* A number that this process has not used. */
int lsi_internode_new_id(void);

/* Tells the other ranks, unless the group has failed, and frees it. */
void lsi_internode_close(ls_group *group);

#endif
