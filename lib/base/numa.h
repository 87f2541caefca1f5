/*
 * NUMA nodes as the kernel lists them in a folder, /sys/devices/system/node;
 * tests pass other folders.
 */
#ifndef LS_BASE_NUMA_H
#define LS_BASE_NUMA_H

#include "base/cpuset.h"

#define LSI_NUMA_FOLDER "/sys/devices/system/node"

/*
 * The nodes that a file of the folder lists: "online", "has_memory". They are
 * nodes, not CPUs, in the same form. False without this file.
 */
bool lsi_numa_list(const char *folder, const char *file, lsi_cpuset *out);

/* The CPUs of a node; false if it cannot be read. */
bool lsi_numa_cpus(const char *folder, int node, lsi_cpuset *out);

/*
 * The node that has all CPUs of a set, and memory, on a machine with memory in
 * several nodes; else -1.
 */
int lsi_numa_home(const char *folder, const lsi_cpuset *cpus);

#endif
