/*
 * Where the ranks of a job go on this machine, and with how many threads.
 */
#ifndef LS_LAUNCH_PLACEMENT_H
#define LS_LAUNCH_PLACEMENT_H

#include "launch/binding.h"

typedef struct lsi_placement {
    lsi_binding_mode mode;
    int ranks, threads; /* of each rank */
    lsi_cpuset *places; /* of each rank; NULL: none is bound */
    lsi_cpuset allowed; /* to all of them */
    double quota;       /* of the control group, in CPUs; 0: none */
} lsi_placement;

/*
 * Decides it for a machine. One rank alone is not bound by LSI_BINDING_CPU;
 * `threads` 0 stands for OMP_NUM_THREADS or, if that is not set, the CPUs that
 * each rank has. LS_ERR_MEMORY. *out is freed by lsi_placement_free.
 */
ls_status lsi_placement_new(const lsi_topology *topology, double quota,
                            lsi_binding_mode mode, int ranks, int threads,
                            lsi_placement *out);

/*
 * The same for this machine, and by what this process may use. If the machine
 * cannot be read, no rank is bound.
 */
void lsi_placement_here(lsi_binding_mode mode, int ranks, int threads,
                        lsi_placement *out);

/*
 * Leaves each rank that number of threads at most, unless the user has chosen
 * one, by `threads` as above or by OMP_NUM_THREADS. Whether it has made fewer.
 */
bool lsi_placement_limit(lsi_placement *placement, int threads, int most);

void lsi_placement_free(lsi_placement *placement);

/* Of a rank, or NULL if it is not bound. */
const lsi_cpuset *lsi_placement_place(const lsi_placement *placement, int rank);

/* CPUs that the ranks have together: the quota is rounded up. At least 1. */
int lsi_placement_available(const lsi_placement *placement);

/* "2 ranks x 4 threads on 8 CPUs (0-7), bound by core". */
void lsi_placement_line(const lsi_placement *placement, char *out,
                        size_t bytes);

/*
 * Whether there are more threads than CPUs. *out then says so, why there are no
 * more of a machine's `online` CPUs, and what to do.
 */
bool lsi_placement_is_crowded(const lsi_placement *placement, int online,
                              char *out, size_t bytes);

#endif
