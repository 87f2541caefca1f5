/*
 * The kernel's files about the machine: control groups, memory; and dividing
 * the processors that it names among ranks.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cgroup.h"
#include "base/cpuset.h"
#include "base/meminfo.h"
#include "fuzz.h"
#include "launch/binding.h"

static void read_texts(fuzz_input *in)
{
    double cpus = 1;
    char path[64];
    char *a = fuzz_line(in), *b = fuzz_line(in), *rest = fuzz_rest(in);
    if (lsi_cgroup_parse_v2(a, &cpus))
        fuzz_demand(cpus >= 0);
    if (lsi_cgroup_parse_v1(a, b, &cpus))
        fuzz_demand(cpus >= 0);
    if (lsi_cgroup_path(rest, NULL, path, sizeof(path)))
        fuzz_demand(memchr(path, '\0', sizeof(path)) != NULL);
    if (lsi_cgroup_path(rest, "cpu", path, sizeof(path)))
        fuzz_demand(memchr(path, '\0', sizeof(path)) != NULL);
    fuzz_demand(lsi_meminfo_parse(rest, "MemAvailable") >= -1);
    free(a);
    free(b);
    free(rest);
}

/* The files of a group, a line each, in the root of a hierarchy. */
static void read_files(fuzz_input *in)
{
    static const char *const names[] = {"cpu.max", "memory.max",
                                        "memory.current", "memory.stat"};
    char *groups = fuzz_line(in);
    for (int i = 0; i < 4; i++) {
        char *text = i < 3 ? fuzz_line(in) : fuzz_rest(in);
        fuzz_write(names[i], text, strlen(text));
        free(text);
    }
    const char *proc = fuzz_file(groups, strlen(groups));
    const double cpus = lsi_cgroup_cpu_limit(proc, fuzz_folder());
    const double room = lsi_cgroup_memory_left(proc, fuzz_folder());
    fuzz_demand(cpus >= 0);
    fuzz_demand(room == 0 || room >= 1);
    free(groups);
}

/* Sets of CPUs: what is understood says the same when it is said again. */
static void read_cpus(fuzz_input *in)
{
    lsi_cpuset set, again;
    char whole[5 * LSI_CPUSET_MAX], cut[8];
    char *text = fuzz_rest(in);
    if (lsi_cpuset_parse(text, &set) && lsi_cpuset_count(&set) > 0) {
        lsi_cpuset_text(&set, whole, sizeof(whole));
        lsi_cpuset_text(&set, cut, sizeof(cut));
        fuzz_demand(lsi_cpuset_parse(whole, &again));
        fuzz_demand(lsi_cpuset_within(&set, &again));
        fuzz_demand(lsi_cpuset_within(&again, &set));
    }
    free(text);
}

/*
 * However they are bound, ranks get CPUs that are allowed; by cpu in order, and
 * together all of them.
 */
static void divide(fuzz_input *in)
{
    enum { MOST = 32, RANKS = 40 };
    lsi_hardware_thread cpus[MOST];
    lsi_cpuset places[RANKS], allowed = {{0}};
    const int ranks = 1 + fuzz_byte(in) % RANKS;
    const size_t n = in->size < MOST ? in->size : MOST;
    size_t end = 0;
    for (size_t i = 0; i < n; i++) {
        const int byte = fuzz_byte(in);
        cpus[i] = (lsi_hardware_thread){.cpu = (int)i,
                                        .core = byte % 4,
                                        .kind = byte / 4 % 4,
                                        .node = byte / 16 % 4,
                                        .allowed = byte < 192};
        if (cpus[i].allowed)
            lsi_cpuset_add(&allowed, (int)i);
    }
    const lsi_topology machine = {.cpus = cpus, .n = n};
    for (int mode = 0; mode <= LSI_BINDING_NONE; mode++) {
        fuzz_demand(lsi_binding_divide(&machine, (lsi_binding_mode)mode, ranks,
                                       places) == LS_OK);
        for (int r = 0; r < ranks; r++)
            fuzz_demand(lsi_cpuset_within(&places[r], &allowed));
        fuzz_demand(lsi_binding_threads((lsi_binding_mode)mode, places, ranks,
                                        (int)n) >= 1);
    }
    for (int r = 0; r < ranks; r++) {
        const lsi_range share = lsi_binding_share(cpus, n, ranks, r);
        if (n < (size_t)ranks) {
            fuzz_demand(lsi_range_size(share) == 0);
            continue;
        }
        fuzz_demand(share.begin == end && share.end > share.begin);
        end = share.end;
    }
    fuzz_demand(n < (size_t)ranks || end == n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    switch (fuzz_byte(&in) % 8) {
    case 0:
        read_files(&in);
        break;
    case 1:
        divide(&in);
        break;
    case 2:
        read_cpus(&in);
        break;
    default:
        read_texts(&in);
    }
    return 0;
}
