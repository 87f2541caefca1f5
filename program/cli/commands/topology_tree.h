/*
 * A machine drawn as a tree: packages, NUMA nodes, caches, cores.
 */
#ifndef LS_CLI_COMMANDS_TOPOLOGY_TREE_H
#define LS_CLI_COMMANDS_TOPOLOGY_TREE_H

#include "launch/topology.h"
#include "report/tree.h"

/*
 * Adds the machine to a tree without lines. Caches and cores that are equal and
 * stand next to each other are one line. `places` (or NULL) are the CPUs of
 * `ranks` ranks: each node says which of them are there.
 */
void lsi_draw_topology(lsi_tree *tree, const lsi_topology *topology,
                       const lsi_cpuset *places, int ranks);

#endif
