/* NUMA nodes as the kernel lists them. */
#include "base/numa.h"

#include <stdio.h>
#include <stdlib.h>

bool lsi_numa_list(const char *folder, const char *file, lsi_cpuset *out)
{
    char path[512];
    char *line = NULL;
    size_t room = 0;
    if (snprintf(path, sizeof(path), "%s/%s", folder, file) >=
        (int)sizeof(path))
        return false;
    FILE *const stream = fopen(path, "re");
    if (stream == NULL)
        return false;
    const bool good =
        getline(&line, &room, stream) > 0 && lsi_cpuset_parse(line, out);
    free(line);
    fclose(stream);
    return good;
}

bool lsi_numa_cpus(const char *folder, int node, lsi_cpuset *out)
{
    char file[64];
    snprintf(file, sizeof(file), "node%d/cpulist", node);
    return lsi_numa_list(folder, file, out);
}

int lsi_numa_home(const char *folder, const lsi_cpuset *cpus)
{
    lsi_cpuset nodes, of_node;
    if (!lsi_numa_list(folder, "has_memory", &nodes) ||
        lsi_cpuset_count(&nodes) < 2 || lsi_cpuset_count(cpus) == 0)
        return -1;
    for (int node = 0; node < LSI_CPUSET_MAX; node++) {
        if (lsi_cpuset_has(&nodes, node) &&
            lsi_numa_cpus(folder, node, &of_node) &&
            lsi_cpuset_within(cpus, &of_node))
            return node;
    }
    return -1;
}
