/*
 * The NUMA node of the memory that ranks share.
 *
 * A page is placed on the node of the CPU that touches it first. Any rank may
 * be the first to touch shared memory: one that polls a cell before its rank
 * has written it, or one that fills a channel for another. So a rank whose CPUs
 * belong to one node asks the kernel to put its own part of the region there,
 * whichever rank touches it first. The request touches no page.
 *
 * Shared buffers do not need it: each rank has its part made (transport.h,
 * reserve), which puts the part where the rank runs.
 */
#ifndef LS_COMM_NODE_HOME_H
#define LS_COMM_NODE_HOME_H

#include "comm/state/state.h"

/*
 * Asks for this rank's part of the region, before others use it. Does nothing
 * on a machine with one node, for a rank that may run on several, or where a
 * memory policy has been set from outside (numactl).
 */
void lsi_home_ask(const ls_group *group);

/* The same for a given node; false if the kernel refuses. */
bool lsi_home_ask_for(const ls_group *group, int node);

#endif
