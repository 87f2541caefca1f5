/*
 * The cpus in the logical order of hwloc, which knows which share a core, a
 * cache, a memory node.
 */
#include <hwloc.h>
#include <stdlib.h>

#include "base/cpus.h"
#include "launch/binding.h"

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
