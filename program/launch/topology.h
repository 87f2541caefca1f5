/* The processors of this machine, and their common caches and nodes. */
#ifndef LS_LAUNCH_TOPOLOGY_H
#define LS_LAUNCH_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cpuset.h"
#include "lockstep/status.h"

/* A cache that hardware threads share. */
typedef struct lsi_cpu_cache {
    int number; /* -1: none */
    uint64_t bytes;
} lsi_cpu_cache;

enum { LSI_CACHES = 3 }; /* L1 (of data), L2, L3 */

/*
 * A CPU of the operating system. Cores and caches are numbered from 0 in the
 * order of the list; packages and NUMA nodes by the operating system.
 */
typedef struct lsi_hardware_thread {
    int cpu, core;
    int kind; /* kind of core: higher is faster; 0: all alike, or unknown */
    int package, node; /* node: -1, without any */
    lsi_cpu_cache caches[LSI_CACHES];
    bool allowed; /* allowed to this process and its children */
} lsi_hardware_thread;

/*
 * A NUMA node's memory. A node without CPUs is in no hardware thread's `node`.
 */
typedef struct lsi_memory_node {
    int number;
    uint64_t bytes; /* 0: CPUs only */
} lsi_memory_node;

typedef struct lsi_topology {
    lsi_hardware_thread *cpus; /* close ones are neighbours */
    size_t n;
    lsi_memory_node *nodes;
    size_t n_nodes;
    bool is_described; /* not this machine: HWLOC_SYNTHETIC or HWLOC_XMLFILE */
} lsi_topology;

/*
 * Reads the machine. The affinity mask defines the allowed CPUs: a cgroup's
 * cpuset, taskset and batch systems narrow it. For a described machine, the
 * description defines them. LS_ERR_SYSTEM if it cannot be read. *out is freed
 * by lsi_topology_free.
 */
ls_status lsi_topology_read(lsi_topology *out);
void lsi_topology_free(lsi_topology *machine);

/* Narrows the allowed CPUs to a set; LS_ERR_ARGUMENT if that leaves none. */
ls_status lsi_topology_restrict(lsi_topology *machine, const lsi_cpuset *to);

#endif
