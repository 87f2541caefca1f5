/*
 * How many CPUs and threads a process gets.
 */
#include "base/cpus.h"

#include <math.h>
#include <stdlib.h>

#include "base/cgroup.h"
#include "base/cpuset.h"

int lsi_affinity_count(void)
{
    lsi_cpuset own;
    return lsi_cpuset_own(&own) ? lsi_cpuset_count(&own) : 0;
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
