/* The places of a job's ranks on this machine, and their numbers of threads. */
#ifndef LS_LAUNCH_PLACEMENT_H
#define LS_LAUNCH_PLACEMENT_H

#include "launch/binding.h"

typedef struct lsi_placement {
    lsi_binding_mode mode;
    int ranks, threads; /* number of ranks, threads of each */
    lsi_cpuset *places; /* CPUs of each rank; NULL: none is bound */
    lsi_cpuset allowed; /* CPUs allowed to all ranks */
    double quota;       /* quota of the control group in CPUs; 0: none */
} lsi_placement;

/*
 * Places ranks on a machine. LSI_BINDING_CPU binds neither a single rank nor
 * ranks that have several threads and share CPUs. `threads` 0 stands for
 * OMP_NUM_THREADS or, if that is not set, the CPUs of each rank. LS_ERR_MEMORY.
 * *out is freed by lsi_placement_free.
 */
ls_status lsi_placement_new(const lsi_topology *topology, double quota,
                            lsi_binding_mode mode, int ranks, int threads,
                            lsi_placement *out);

/*
 * Places ranks on this machine, with the CPUs that this process may use. If the
 * machine cannot be read, no rank is bound.
 */
void lsi_placement_here(lsi_binding_mode mode, int ranks, int threads,
                        lsi_placement *out);

/*
 * Limits each rank to `most` threads, unless the user has chosen a number, by
 * `threads` as above or by OMP_NUM_THREADS. Returns whether the number shrank.
 */
bool lsi_placement_limit(lsi_placement *placement, int threads, int most);

void lsi_placement_free(lsi_placement *placement);

/* CPUs of a rank, or NULL if it is not bound. */
const lsi_cpuset *lsi_placement_place(const lsi_placement *placement, int rank);

/* CPUs that the ranks have together, with the quota rounded up. At least 1. */
int lsi_placement_available(const lsi_placement *placement);

/* "2 ranks x 4 threads on 8 CPUs (0-7), bound by core". */
void lsi_placement_line(const lsi_placement *placement, char *out,
                        size_t bytes);

/*
 * Whether there are more threads than CPUs. *out then explains this, why only
 * some of a machine's `online` CPUs are available, and a remedy.
 */
bool lsi_placement_is_crowded(const lsi_placement *placement, int online,
                              char *out, size_t bytes);

#endif
