#include "comm/node/seat.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/cpuset.h"
#include "base/error.h"
#include "base/numa.h"
#include "base/proc.h"

enum { TEXT_BYTES = 1024, CACHES = 8 };

#define CPU_FOLDER "/sys/devices/system/cpu/cpu%d/"

static int lowest(const lsi_cpuset *set)
{
    int cpu = 0;
    while (cpu < LSI_CPUSET_MAX && !lsi_cpuset_has(set, cpu))
        cpu++;
    return cpu < LSI_CPUSET_MAX ? cpu : -1;
}

/* Reads a list of CPUs; its lowest CPU if all of `own` are in it, else -1. */
static int holder(const char *path, const lsi_cpuset *own)
{
    char text[TEXT_BYTES];
    lsi_cpuset set = {{0}};
    if (lsi_proc_read(path, text, sizeof(text)) < 0 ||
        !lsi_cpuset_parse(text, &set) || !lsi_cpuset_within(own, &set))
        return -1;
    return lowest(&set);
}

/* Kernels before 5.3 know the list under its old name only. */
static int package_of(int cpu, const lsi_cpuset *own)
{
    static const char *const names[] = {"package_cpus_list",
                                        "core_siblings_list"};
    int found = -1;
    for (int i = 0; i < 2 && found < 0; i++) {
        char path[128];
        snprintf(path, sizeof(path), CPU_FOLDER "topology/%s", cpu, names[i]);
        found = holder(path, own);
    }
    return found;
}

/* The largest set that shares a cache, which is the last one's. */
static int cache_of(int cpu, const lsi_cpuset *own)
{
    int found = -1;
    for (int i = 0; i < CACHES; i++) {
        char path[128], text[TEXT_BYTES];
        snprintf(path, sizeof(path), CPU_FOLDER "cache/index%d/shared_cpu_list",
                 cpu, i);
        if (lsi_proc_read(path, text, sizeof(text)) < 0)
            break;
        found = holder(path, own);
    }
    return found;
}

static bool parse_one(const char **at, lsi_seat *out)
{
    for (int level = 0; level < LSI_SEAT_LEVELS; level++) {
        char *end;
        const long value = strtol(*at, &end, 10);
        const char after = level + 1 < LSI_SEAT_LEVELS ? '/' : ',';
        if (end == *at || **at < '0' || **at > '9' || value > INT32_MAX ||
            (*end != after && (*end != '\0' || after == '/')))
            return false;
        out->in[level] = (int32_t)value;
        *at = *end == '\0' ? end : end + 1;
    }
    return true;
}

ls_status lsi_seat_parse(const char *text, int rank, lsi_seat *out)
{
    const char *at = text;
    for (int r = 0; r <= rank; r++) {
        if (*at == '\0' && r > 0)
            return lsi_fail(LS_ERR_ARGUMENT,
                            "LOCKSTEP_PLACEMENT has %d entries, but this is "
                            "rank %d of its node, counted from 0; give an "
                            "entry for each rank of the node",
                            r, rank);
        if (!parse_one(&at, out))
            return lsi_fail(
                LS_ERR_ARGUMENT,
                "LOCKSTEP_PLACEMENT is '%.80s'; it should be "
                "PACKAGE/NODE/CACHE for each rank of a node, separated by "
                "commas, as in 0/0/0,0/0/8",
                text);
    }
    return LS_OK;
}

ls_status lsi_seat_of(int rank, lsi_seat *out)
{
    const char *text = getenv("LOCKSTEP_PLACEMENT");
    lsi_cpuset own = {{0}};
    if (text != NULL && *text != '\0')
        return lsi_seat_parse(text, rank, out);
    *out = (lsi_seat){{-1, -1, -1}};
    if (!lsi_cpuset_own(&own))
        return LS_OK;
    const int cpu = lowest(&own);
    *out =
        (lsi_seat){{package_of(cpu, &own), lsi_numa_home(LSI_NUMA_FOLDER, &own),
                    cache_of(cpu, &own)}};
    return LS_OK;
}
