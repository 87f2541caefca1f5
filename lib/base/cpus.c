/*
 * How many CPUs and threads a process gets.
 */
#include "base/cpus.h"

#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/cgroup.h"
#include "base/clock.h"
#include "base/cpuset.h"

int lsi_affinity_count(void)
{
    lsi_cpuset own;
    return lsi_cpuset_own(&own) ? lsi_cpuset_count(&own) : 0;
}

/* A thread that meets another one there, or a forked child, reads itself. */
double lsi_cpus_quota(uint64_t *group)
{
    static const uint64_t second = UINT64_C(1000000000);
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static uint64_t read_ns, kept_group;
    static double kept;
    if (pthread_mutex_trylock(&lock) != 0)
        return lsi_cgroup_cpu_quota("/proc/self/cgroup", "/sys/fs/cgroup",
                                    group);
    const uint64_t now = lsi_clock_ns();
    if (read_ns == 0 || now - read_ns >= second) {
        kept = lsi_cgroup_cpu_quota("/proc/self/cgroup", "/sys/fs/cgroup",
                                    &kept_group);
        read_ns = now;
    }
    const double quota = kept;
    *group = kept_group;
    pthread_mutex_unlock(&lock);
    return quota;
}

int lsi_cpus_available(void)
{
    int cpus = lsi_affinity_count();
    uint64_t group;
    const double quota = lsi_cpus_quota(&group);
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
int lsi_threads_requested(void)
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
    const int wanted = lsi_threads_requested();
    if (wanted > 0)
        return wanted;
    return cpus < 1 ? 1 : cpus;
}
