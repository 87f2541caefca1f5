/* The CPUs that a rank may use, among those that this process may use. */
#ifndef LS_LAUNCH_BINDING_H
#define LS_LAUNCH_BINDING_H

#include <stddef.h>

#include "base/partition.h"
#include "launch/topology.h"

typedef enum lsi_binding_mode {
    /*
     * Disjoint parts of the machine in its order. They are whole cores if each
     * rank gets at least one, else single CPUs. With fewer CPUs than ranks,
     * equally many ranks share each CPU; if that is impossible, ranks are not
     * bound.
     */
    LSI_BINDING_CPU,
    /*
     * Whole cores of one NUMA node, shared with no other rank, and equally many
     * of each kind on hybrid processors. With fewer ranks than nodes, parts of
     * the machine as above. With fewer cores than ranks, ranks share one core
     * each.
     */
    LSI_BINDING_CORE,
    /*
     * All CPUs of a NUMA node, which its ranks share. With fewer ranks than
     * nodes, several whole nodes.
     */
    LSI_BINDING_NUMA,
    LSI_BINDING_NONE
} lsi_binding_mode;

/* Values of --bind, in the order of the modes. NULL: LSI_BINDING_CPU. */
#define LSI_BINDING_NAMES "cpu|core|numa|none"

lsi_binding_mode lsi_binding_parse(const char *name);
const char *lsi_binding_name(lsi_binding_mode mode);

/*
 * Computes the sets of one or more ranks; a rank that is not bound gets an
 * empty one. LS_ERR_MEMORY.
 */
ls_status lsi_binding_divide(const lsi_topology *machine, lsi_binding_mode mode,
                             int ranks, lsi_cpuset *out);

/*
 * The part of the list for rank `rank` of `ranks` with LSI_BINDING_CPU; an
 * empty range if the CPUs are too few.
 */
lsi_range lsi_binding_share(const lsi_hardware_thread *cpus, size_t n,
                            int ranks, int rank);

/*
 * The number of threads that each rank has CPUs for, at least 1: an equal part
 * of the machine's `available` CPUs. With LSI_BINDING_CORE and LSI_BINDING_NUMA
 * it is at most that of the rank whose set has the fewest.
 */
int lsi_binding_threads(lsi_binding_mode mode, const lsi_cpuset *sets,
                        int ranks, int available);

#endif
