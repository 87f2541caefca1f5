/*
 * The machine in a build without hwloc: the allowed CPUs by NUMA node and
 * number, each as a separate core. All other properties stay unknown.
 */
#include <stdlib.h>

#include "base/error.h"
#include "base/numa.h"
#include "launch/topology.h"

/* Adds the CPUs of `from` that are left, and removes them from it. */
static void add_cpus(lsi_topology *machine, lsi_cpuset *left,
                     const lsi_cpuset *from, int node)
{
    for (int cpu = 0; cpu < LSI_CPUSET_MAX; cpu++) {
        if (!lsi_cpuset_has(left, cpu) || !lsi_cpuset_has(from, cpu))
            continue;
        left->words[cpu / 64] &= ~(UINT64_C(1) << (cpu % 64));
        machine->cpus[machine->n] = (lsi_hardware_thread){
            .cpu = cpu,
            .core = (int)machine->n,
            .node = node,
            .caches = {{.number = -1}, {.number = -1}, {.number = -1}},
            .allowed = true,
        };
        machine->n++;
    }
}

static void add_nodes(lsi_topology *machine, lsi_cpuset *left)
{
    lsi_cpuset nodes, cpus;
    if (!lsi_numa_list(LSI_NUMA_FOLDER, "online", &nodes))
        return;
    for (int node = 0; node < LSI_CPUSET_MAX; node++) {
        if (lsi_cpuset_has(&nodes, node) &&
            lsi_numa_cpus(LSI_NUMA_FOLDER, node, &cpus))
            add_cpus(machine, left, &cpus, node);
    }
}

ls_status lsi_topology_read(lsi_topology *out)
{
    lsi_cpuset left;
    lsi_topology machine = {0};
    if (!lsi_cpuset_own(&left))
        return lsi_fail_errno(LS_ERR_SYSTEM,
                              "cannot read which CPUs this process may use");
    const size_t n = (size_t)lsi_cpuset_count(&left);
    machine.cpus = calloc(n + 1, sizeof(*machine.cpus));
    if (machine.cpus == NULL)
        return lsi_fail(LS_ERR_MEMORY, "not enough memory for %zu CPUs", n);
    add_nodes(&machine, &left);
    const lsi_cpuset others = left;
    add_cpus(&machine, &left, &others, -1);
    *out = machine;
    return LS_OK;
}
