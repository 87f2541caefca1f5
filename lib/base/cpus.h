/*
 * How many CPUs a process may use, and threads that makes.
 */
#ifndef LS_BASE_CPUS_H
#define LS_BASE_CPUS_H

#include <stdint.h>

enum { LSI_MAX_THREADS = 4096 }; /* of a rank */

/*
 * CPUs in this process's affinity mask; 0 if the kernel does not tell, as in a
 * sandbox that denies the call.
 */
int lsi_affinity_count(void);

/*
 * The quota of this process's control group in CPUs, 0: none, and the number of
 * the group that has it (cgroup.h). To read it takes a fraction of a
 * millisecond, so it is read again after a second only.
 */
double lsi_cpus_quota(uint64_t *group);

/*
 * CPUs that this process may use: its affinity mask, limited by the cgroup's
 * quota (rounded up). At least 1.
 */
int lsi_cpus_available(void);

/*
 * Limits the threads of this rank's computing to `cpus` (at least 1): its share
 * of the CPUs of its machine. A later call can lower the limit, not raise it:
 * memory may be in use that was divided among the threads of before.
 */
void lsi_cpus_limit(int cpus);

/* The limit of CPUs; INT_MAX: none. */
int lsi_cpus_limited(void);

/* The first number of OMP_NUM_THREADS; 0 if it is not set or not usable. */
int lsi_threads_requested(void);

/* OMP_NUM_THREADS if that is set, else one thread a CPU, at least 1. */
int lsi_threads_default(int cpus);

#endif
