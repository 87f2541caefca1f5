#include "comm/api/machine_key.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cache_path.h"
#include "base/cpu.h"
#include "base/hash.h"
#include "base/proc.h"
#include "lockstep/version.h"

enum { CACHES = 8, TEXT_BYTES = 1024 };

/* A property of a cache, such as "size"; false if the CPU lacks the cache. */
static bool read_fact(int cpu, int cache, const char *fact, char *text)
{
    char path[128];
    snprintf(path, sizeof(path),
             "/sys/devices/system/cpu/cpu%d/cache/index%d/%s", cpu, cache,
             fact);
    return lsi_proc_read(path, text, TEXT_BYTES) >= 0;
}

/* Of one CPU; *shared is the set that shares the last cache. */
static uint64_t hash_caches(uint64_t hash, int cpu, lsi_cpuset *shared)
{
    static const char *const facts[] = {"level", "size", "shared_cpu_list"};
    char text[TEXT_BYTES] = "";
    for (int cache = 0; cache < CACHES; cache++)
        for (size_t f = 0; f < sizeof(facts) / sizeof(facts[0]); f++)
            if (read_fact(cpu, cache, facts[f], text)) {
                hash = lsi_hash(hash, text, strlen(text));
                if (f == 2)
                    (void)lsi_cpuset_parse(text, shared);
            }
    return hash;
}

/*
 * One CPU stands for all that share its last cache. A machine has few of
 * these, and a read of a file costs microseconds.
 */
static uint64_t hash_all_caches(uint64_t hash, const lsi_cpuset *cpus)
{
    lsi_cpuset seen = {{0}};
    for (int cpu = 0; cpu < LSI_CPUSET_MAX; cpu++) {
        lsi_cpuset shared = {{0}};
        if (!lsi_cpuset_has(cpus, cpu) || lsi_cpuset_has(&seen, cpu))
            continue;
        hash = hash_caches(hash, cpu, &shared);
        for (int w = 0; w < LSI_CPUSET_WORDS; w++)
            seen.words[w] |= shared.words[w];
    }
    return hash;
}

bool lsi_machine_key_of(const lsi_cpuset *cpus, lsi_machine_key *out)
{
    char name[64], text[128];
    const char *const model = lsi_cpu_model(), *const version =
                                                   ls_version_string();
    uint64_t key = lsi_hash(LSI_HASH_START, model, strlen(model));
    key = lsi_hash(key, version, strlen(version));
    key = lsi_hash(key, cpus->words, sizeof(cpus->words));
    key = hash_all_caches(key, cpus);
    lsi_cpuset_text(cpus, text, sizeof(text));
    snprintf(out->machine, sizeof(out->machine), "%.80s, CPUs %s, %016" PRIx64,
             model, text, key);
    snprintf(name, sizeof(name), "select-%016" PRIx64 ".txt", key);
    return lsi_cache_path(name, out->path, sizeof(out->path));
}
