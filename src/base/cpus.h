/*
 * How many CPUs a process may use, and threads that makes.
 */
#ifndef LS_BASE_CPUS_H
#define LS_BASE_CPUS_H

enum { LSI_MAX_THREADS = 4096 }; /* of a rank */

/*
 * CPUs in this process's affinity mask; 0 if the kernel does not tell, as in a
 * sandbox that denies the call.
 */
int lsi_affinity_count(void);

/*
 * CPUs that this process may use: its affinity mask, limited by the cgroup's
 * quota (rounded up). At least 1.
 */
int lsi_cpus_available(void);

/* OMP_NUM_THREADS if that is set, else one thread a CPU, at least 1. */
int lsi_threads_default(int cpus);

#endif
