/*
 * The CPU quota and the memory limit that a control group (a container, a batch
 * job) sets. The parsers are pure functions of text; the last two functions
 * read files.
 */
#ifndef LS_BASE_CGROUP_H
#define LS_BASE_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The contents of cpu.max, "50000 100000" or "max 100000", as CPUs. */
bool lsi_cgroup_parse_v2(const char *cpu_max, double *cpus);

/* cpu.cfs_quota_us (-1: none) and cpu.cfs_period_us, as CPUs. */
bool lsi_cgroup_parse_v1(const char *quota, const char *period, double *cpus);

/*
 * The path of this process in the hierarchy that has `controller` (v1), or in
 * the unified one if `controller` is NULL, from the contents of
 * /proc/self/cgroup.
 */
bool lsi_cgroup_path(const char *proc_cgroup, const char *controller, char *out,
                     size_t out_bytes);

/*
 * The tightest quota from this process's group up to the root, in CPUs, or 0
 * without a quota. `proc_file` is /proc/self/cgroup, `mount` is /sys/fs/cgroup;
 * tests pass other folders.
 */
double lsi_cgroup_cpu_limit(const char *proc_file, const char *mount);

/*
 * The same, and the number of the control group that has that quota: the same
 * in all containers of a machine, whatever its path is there; 0: none.
 */
double lsi_cgroup_cpu_quota(const char *proc_file, const char *mount,
                            uint64_t *group);

/* The bytes that the tightest memory limit leaves, at least 1, or 0: none. */
double lsi_cgroup_memory_left(const char *proc_file, const char *mount);

/* The number of the line "oom_kill 3" of memory.events, memory.oom_control. */
bool lsi_cgroup_parse_oom(const char *text, uint64_t *kills);

/*
 * How many processes of this process's group, and of those below it, the kernel
 * has killed for want of memory; false if that cannot be known. If the path
 * names a place outside this container, the nearest group counts that is there.
 */
bool lsi_cgroup_oom_kills(const char *proc_file, const char *mount,
                          uint64_t *kills);

#endif
