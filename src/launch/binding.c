/*
 * Dividing the machine between ranks. hwloc knows which cpus share a core, a
 * cache, a memory node: in its logical order neighbours are close, so a
 * contiguous part of that order is a good place for a rank.
 */
#include "launch/binding.h"

#include <hwloc.h>
#include <sched.h>
#include <stdlib.h>

#include "base/threads.h"

/* The part of the topology's order that lies within our own binding. */
static size_t list_cpus(hwloc_topology_t topology, lsi_hardware_thread **out)
{
    const int n = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU);
    hwloc_bitmap_t allowed = hwloc_bitmap_alloc();
    lsi_hardware_thread *cpus =
        n > 0 ? malloc((size_t)n * sizeof(*cpus)) : NULL;
    size_t found = 0;
    if (allowed != NULL && cpus != NULL &&
        hwloc_get_cpubind(topology, allowed, HWLOC_CPUBIND_PROCESS) == 0) {
        for (int i = 0; i < n; i++) {
            const hwloc_obj_t pu =
                hwloc_get_obj_by_type(topology, HWLOC_OBJ_PU, (unsigned)i);
            const hwloc_obj_t core =
                hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_CORE, pu);
            if (hwloc_bitmap_isset(allowed, pu->os_index))
                cpus[found++] = (lsi_hardware_thread){
                    .cpu = (int)pu->os_index,
                    .core = core != NULL ? (int)core->logical_index : i,
                };
        }
    }
    hwloc_bitmap_free(allowed);
    *out = cpus;
    return found;
}

size_t lsi_binding_cpus(lsi_hardware_thread **out)
{
    hwloc_topology_t topology;
    *out = NULL;
    /* hwloc would ask for the mask without end if it were denied. */
    if (lsi_affinity_count() < 1)
        return 0;
    if (hwloc_topology_init(&topology) != 0)
        return 0;
    size_t found = 0;
    if (hwloc_topology_load(topology) == 0)
        found = list_cpus(topology, out);
    hwloc_topology_destroy(topology);
    return found;
}

static size_t count_cores(const lsi_hardware_thread *cpus, size_t n)
{
    size_t cores = 0;
    for (size_t i = 0; i < n; i++)
        cores += i == 0 || cpus[i].core != cpus[i - 1].core;
    return cores;
}

/* The index of the first cpu of core number `core` of the list; n behind. */
static size_t core_begin(const lsi_hardware_thread *cpus, size_t n, size_t core)
{
    size_t seen = 0;
    for (size_t i = 0; i < n; i++) {
        seen += i == 0 || cpus[i].core != cpus[i - 1].core;
        if (seen == core + 1)
            return i;
    }
    return n;
}

lsi_range lsi_binding_share(const lsi_hardware_thread *cpus, size_t n,
                            int ranks, int rank)
{
    if (n < (size_t)ranks)
        return (lsi_range){0, 0};
    const size_t cores = count_cores(cpus, n);
    if (cores < (size_t)ranks)
        return lsi_partition(n, (size_t)ranks, (size_t)rank);
    const lsi_range share = lsi_partition(cores, (size_t)ranks, (size_t)rank);
    return (lsi_range){core_begin(cpus, n, share.begin),
                       core_begin(cpus, n, share.end)};
}

void lsi_binding_apply(const lsi_hardware_thread *cpus, size_t n)
{
    int highest = 0;
    for (size_t i = 0; i < n; i++)
        highest = cpus[i].cpu > highest ? cpus[i].cpu : highest;
    const size_t bytes = CPU_ALLOC_SIZE(highest + 1);
    cpu_set_t *set = CPU_ALLOC(highest + 1);
    if (set == NULL)
        return;
    CPU_ZERO_S(bytes, set);
    for (size_t i = 0; i < n; i++)
        CPU_SET_S(cpus[i].cpu, bytes, set);
    sched_setaffinity(0, bytes, set);
    CPU_FREE(set);
}
