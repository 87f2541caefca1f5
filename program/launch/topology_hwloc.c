/*
 * The machine as hwloc sees it: the CPUs in its logical order. In this order,
 * CPUs that share a core, a cache or a NUMA node are next to each other.
 */
#include <hwloc.h>
#include <stdlib.h>

#include "base/error.h"
#include "launch/topology.h"

static bool belongs(hwloc_obj_t pu, hwloc_obj_t to)
{
    return hwloc_bitmap_isset(to->cpuset, pu->os_index) != 0;
}

/*
 * The first node that has the CPU: the usual one where a package also has fast
 * memory.
 */
static int node_of(hwloc_topology_t topology, hwloc_obj_t pu)
{
    hwloc_obj_t node = NULL;
    while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE,
                                              node)) != NULL) {
        if (belongs(pu, node))
            return (int)node->os_index;
    }
    return -1;
}

/* Kind of core on hybrid processors, in the order of speed; 0 if unknown. */
static int kind_of(hwloc_topology_t topology, hwloc_obj_t pu)
{
#if HWLOC_API_VERSION >= 0x00020400
    int efficiency = -1;
    const int kind = hwloc_cpukinds_get_by_cpuset(topology, pu->cpuset, 0);
    if (kind >= 0 && hwloc_cpukinds_get_info(topology, (unsigned)kind, NULL,
                                             &efficiency, NULL, NULL, 0) == 0)
        return efficiency > 0 ? efficiency : 0;
#endif
    (void)topology, (void)pu;
    return 0;
}

static lsi_cpu_cache cache_of(hwloc_topology_t topology, hwloc_obj_t pu,
                              hwloc_obj_type_t type)
{
    const hwloc_obj_t cache =
        hwloc_get_ancestor_obj_by_type(topology, type, pu);
    if (cache == NULL)
        return (lsi_cpu_cache){.number = -1};
    return (lsi_cpu_cache){(int)cache->logical_index, cache->attr->cache.size};
}

static lsi_hardware_thread read_cpu(hwloc_topology_t topology, hwloc_obj_t pu)
{
    const hwloc_obj_t core =
        hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_CORE, pu);
    const hwloc_obj_t package =
        hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_PACKAGE, pu);
    return (lsi_hardware_thread){
        .cpu = (int)pu->os_index,
        .core = (int)(core != NULL ? core : pu)->logical_index,
        .kind = kind_of(topology, pu),
        .package = package != NULL ? (int)package->os_index : 0,
        .node = node_of(topology, pu),
        .caches = {cache_of(topology, pu, HWLOC_OBJ_L1CACHE),
                   cache_of(topology, pu, HWLOC_OBJ_L2CACHE),
                   cache_of(topology, pu, HWLOC_OBJ_L3CACHE)},
    };
}

static ls_status read_all(hwloc_topology_t topology, const lsi_cpuset *own,
                          lsi_topology *out)
{
    const int n = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU);
    const int n_nodes = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE);
    const hwloc_const_bitmap_t described =
        hwloc_topology_get_allowed_cpuset(topology);
    out->is_described = hwloc_topology_is_thissystem(topology) == 0;
    if (n < 1 || n_nodes < 0)
        return lsi_fail(LS_ERR_SYSTEM, "hwloc found no CPUs on this machine");
    out->cpus = calloc((size_t)n, sizeof(*out->cpus));
    out->nodes = calloc((size_t)n_nodes + 1, sizeof(*out->nodes));
    if (out->cpus == NULL || out->nodes == NULL)
        return lsi_fail(LS_ERR_MEMORY, "not enough memory for %d CPUs", n);
    for (int i = 0; i < n; i++) {
        const hwloc_obj_t pu =
            hwloc_get_obj_by_type(topology, HWLOC_OBJ_PU, (unsigned)i);
        out->cpus[i] = read_cpu(topology, pu);
        out->cpus[i].allowed =
            out->is_described ? hwloc_bitmap_isset(described, pu->os_index) != 0
                              : lsi_cpuset_has(own, out->cpus[i].cpu);
    }
    for (int i = 0; i < n_nodes; i++) {
        const hwloc_obj_t node =
            hwloc_get_obj_by_type(topology, HWLOC_OBJ_NUMANODE, (unsigned)i);
        out->nodes[i] = (lsi_memory_node){(int)node->os_index,
                                          node->attr->numanode.local_memory};
    }
    out->n = (size_t)n;
    out->n_nodes = (size_t)n_nodes;
    return LS_OK;
}

ls_status lsi_topology_read(lsi_topology *out)
{
    hwloc_topology_t topology;
    lsi_topology machine = {0};
    lsi_cpuset own;
    /* hwloc would ask for the mask forever if it were denied. */
    if (!lsi_cpuset_own(&own))
        return lsi_fail(LS_ERR_SYSTEM,
                        "cannot read which CPUs this process may use");
    if (hwloc_topology_init(&topology) != 0)
        return lsi_fail_errno(LS_ERR_SYSTEM, "cannot start hwloc");
    hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
    ls_status status = LS_OK;
    if (hwloc_topology_load(topology) != 0)
        status = lsi_fail_errno(
            LS_ERR_SYSTEM, "hwloc cannot read the topology of this machine");
    if (status == LS_OK)
        status = read_all(topology, &own, &machine);
    hwloc_topology_destroy(topology);
    if (status == LS_OK)
        *out = machine;
    else
        lsi_topology_free(&machine);
    return status;
}
