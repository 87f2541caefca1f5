/*
 * The CPUs of the ranks of a node.
 */
#ifndef LS_COMM_NODE_RANK_CPUS_H
#define LS_COMM_NODE_RANK_CPUS_H

#include "comm/state/state.h"

/* CPUs in the affinity masks of the ranks that share this memory. */
typedef struct lsi_rank_cpus {
    int own, together;
    bool disjoint; /* none is open to two ranks */
} lsi_rank_cpus;

lsi_rank_cpus lsi_rank_cpus_of(const ls_group *group);

/* Whether there are CPUs for all ranks, one each; equal on all ranks. */
bool lsi_rank_cpus_suffice(const ls_group *group);

/*
 * This rank's share of the CPUs that are available to it: the CPUs that no
 * other rank of its node may use, and its part of the others. Ranks of other
 * nodes count if they are on this machine (group->cpus_share). `quota`: of this
 * process's control group in CPUs, 0 for none. At least 1.
 */
int lsi_rank_cpus_share(const ls_group *group, int available, double quota);

/*
 * Limits this process's computing to its share. Called when a group opens, not
 * when one is divided: the ranks of the other parts compute, too.
 */
void lsi_rank_cpus_limit(const ls_group *group);

#endif
