/*
 * Which CPUs a rank may use. Never one that this process may not.
 */
#ifndef LS_LAUNCH_BINDING_H
#define LS_LAUNCH_BINDING_H

#include <stddef.h>

#include "base/partition.h"
#include "launch/topology.h"

typedef enum lsi_binding_mode {
    /*
     * Disjoint parts of the machine in its order: whole cores if there is at
     * least one for each rank, else single CPUs; not bound if there are too
     * few.
     */
    LSI_BINDING_CPU,
    /*
     * Whole cores of one NUMA node, no core for two ranks, of each kind of
     * hybrid processors the same number. If there are fewer ranks than nodes,
     * parts of the machine as above; if there are fewer cores than ranks,
     * ranks have one each that they share.
     */
    LSI_BINDING_CORE,
    /*
     * All CPUs of a NUMA node, which ranks share. If there are fewer ranks than
     * nodes, several whole ones.
     */
    LSI_BINDING_NUMA,
    LSI_BINDING_NONE
} lsi_binding_mode;

/* Of --bind, in the order of the modes. NULL: LSI_BINDING_CPU. */
#define LSI_BINDING_NAMES "cpu|core|numa|none"

lsi_binding_mode lsi_binding_parse(const char *name);
const char *lsi_binding_name(lsi_binding_mode mode);

/*
 * The sets of 1 or more ranks; those that are not bound get an empty one.
 * LS_ERR_MEMORY.
 */
ls_status lsi_binding_divide(const lsi_topology *machine, lsi_binding_mode mode,
                             int ranks, lsi_cpuset *out);

/*
 * The part of the list that rank `rank` of `ranks` gets by LSI_BINDING_CPU; an
 * empty range if there are too few.
 */
lsi_range lsi_binding_share(const lsi_hardware_thread *cpus, size_t n,
                            int ranks, int rank);

/*
 * The threads that each rank has CPUs for, at least 1, if the machine has so
 * many `available` for all: their equal part; by LSI_BINDING_CORE and
 * LSI_BINDING_NUMA not more than the rank whose set gives it the fewest.
 */
int lsi_binding_threads(lsi_binding_mode mode, const lsi_cpuset *sets,
                        int ranks, int available);

#endif
