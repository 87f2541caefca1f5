/*
 * Dividing the machine between ranks. Cpus are listed so that neighbours are
 * close: a contiguous part of that order is a good place for a rank.
 */
#include "launch/binding.h"

#include <sched.h>

static size_t count_cores(const lsi_hardware_thread *cpus, size_t n)
{
    size_t cores = 0;
    for (size_t i = 0; i < n; i++)
        cores += i == 0 || cpus[i].core != cpus[i - 1].core;
    return cores;
}

/* The index of the first cpu of core number `core` of the list; n behind. */
static size_t core_begin(const lsi_hardware_thread *cpus, size_t n, size_t core)
{
    size_t seen = 0;
    for (size_t i = 0; i < n; i++) {
        seen += i == 0 || cpus[i].core != cpus[i - 1].core;
        if (seen == core + 1)
            return i;
    }
    return n;
}

lsi_range lsi_binding_share(const lsi_hardware_thread *cpus, size_t n,
                            int ranks, int rank)
{
    if (n < (size_t)ranks)
        return (lsi_range){0, 0};
    const size_t cores = count_cores(cpus, n);
    if (cores < (size_t)ranks)
        return lsi_partition(n, (size_t)ranks, (size_t)rank);
    const lsi_range share = lsi_partition(cores, (size_t)ranks, (size_t)rank);
    return (lsi_range){core_begin(cpus, n, share.begin),
                       core_begin(cpus, n, share.end)};
}

void lsi_binding_apply(const lsi_hardware_thread *cpus, size_t n)
{
    int highest = 0;
    for (size_t i = 0; i < n; i++)
        highest = cpus[i].cpu > highest ? cpus[i].cpu : highest;
    const size_t bytes = CPU_ALLOC_SIZE(highest + 1);
    cpu_set_t *set = CPU_ALLOC(highest + 1);
    if (set == NULL)
        return;
    CPU_ZERO_S(bytes, set);
    for (size_t i = 0; i < n; i++)
        CPU_SET_S(cpus[i].cpu, bytes, set);
    sched_setaffinity(0, bytes, set);
    CPU_FREE(set);
}
