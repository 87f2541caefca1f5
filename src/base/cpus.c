/*
 * How many CPUs and threads a process gets.
 */
#include "base/cpus.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>

#include "base/cgroup.h"

/* The mask can be wider than cpu_set_t on large machines. */
int lsi_affinity_count(void)
{
    for (int cpus = 1024; cpus <= 1 << 20; cpus *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)cpus);
        if (set == NULL)
            return 0;
        const size_t bytes = CPU_ALLOC_SIZE((size_t)cpus);
        const int failed = sched_getaffinity(0, bytes, set);
        const int error = failed ? errno : 0;
        const int count = failed ? 0 : CPU_COUNT_S(bytes, set);
        CPU_FREE(set);
        if (error != EINVAL)
            return count;
    }
    return 0;
}

int lsi_cpus_available(void)
{
    int cpus = lsi_affinity_count();
    const double quota =
        lsi_cgroup_cpu_limit("/proc/self/cgroup", "/sys/fs/cgroup");
    if (quota > 0 && quota < cpus)
        cpus = (int)ceil(quota);
    return cpus < 1 ? 1 : cpus;
}

/* The first number of OMP_NUM_THREADS, which may be a list; 0 if unusable. */
static int threads_from_env(void)
{
    const char *text = getenv("OMP_NUM_THREADS");
    if (text == NULL)
        return 0;
    char *end;
    const long threads = strtol(text, &end, 10);
    const int usable = end != text && (*end == '\0' || *end == ',') &&
                       threads >= 1 && threads <= LSI_MAX_THREADS;
    return usable ? (int)threads : 0;
}

int lsi_threads_default(int cpus)
{
    const int wanted = threads_from_env();
    if (wanted > 0)
        return wanted;
    return cpus < 1 ? 1 : cpus;
}
