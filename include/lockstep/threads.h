/*
 * How many threads of this process compute.
 */
#ifndef LOCKSTEP_THREADS_H
#define LOCKSTEP_THREADS_H

#include "lockstep/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Sets the number of threads that computations of this library use from now on,
 * 1 to 4096; 0 restores the default. The default is the number that
 * the calling thread gave to omp_set_num_threads, then OMP_NUM_THREADS, then
 * this rank's share of the CPUs (docs/how-to/clusters.md). LS_ERR_ARGUMENT
 * otherwise.
 *
 * Other users of OpenMP in the process keep their number. The threads of a
 * loader, and of the program itself, do not count. Local, for the process, from
 * any thread. Call it between computations: one that is under way on another
 * thread may see either number.
 */
LS_API LS_MUST_CHECK ls_status ls_set_threads(int threads);

/* The number that a computation on the calling thread would use; at least 1. */
LS_API int ls_threads(void);

#ifdef __cplusplus
}
#endif

#endif
