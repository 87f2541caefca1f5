/*
 * On which NUMA node the memory lies that ranks share.
 *
 * A page lies where it is touched first, and of shared memory anybody may be
 * the first: who polls a cell before its rank has written it, who fills a
 * channel for another. So a rank whose CPUs belong to one node asks the kernel
 * to put its own part of the region there, whoever comes first. Nothing is
 * touched for that. Shared buffers need it not: each rank has its part made
 * (transport.h, reserve), which puts it where the rank runs.
 */
#ifndef LS_COMM_NODE_HOME_H
#define LS_COMM_NODE_HOME_H

#include "comm/state/state.h"

/*
 * Asks for this rank's part of the region, before others use it; nothing is
 * done on a machine with one node, for a rank that may run on several, or where
 * a memory policy has been set from outside (numactl).
 */
void lsi_home_ask(const ls_group *group);

/* The same for a given node; false if the kernel refuses. */
bool lsi_home_ask_for(const ls_group *group, int node);

#endif
