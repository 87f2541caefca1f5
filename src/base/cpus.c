/*
 * How many CPUs and threads a process gets.
 */
#include "base/cpus.h"

#include <limits.h>
#include <math.h>
#include <stdatomic.h>
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

static atomic_int limit = INT_MAX;

void lsi_cpus_limit(int cpus)
{
    int before = atomic_load(&limit);
    const int wanted = cpus < 1 ? 1 : cpus;
    while (wanted < before &&
           !atomic_compare_exchange_weak(&limit, &before, wanted))
        ;
}

int lsi_cpus_limited(void)
{
    return atomic_load_explicit(&limit, memory_order_relaxed);
}

/* The variable may be a list. */
int lsi_threads_told(void)
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
    const int wanted = lsi_threads_told();
    if (wanted > 0)
        return wanted;
    return cpus < 1 ? 1 : cpus;
}
