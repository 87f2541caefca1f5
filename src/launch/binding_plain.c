/* The cpus by their numbers, in a build without hwloc: each its own core. */
#include <sched.h>
#include <stdlib.h>

#include "launch/binding.h"

enum { MOST = 4096 /* cpus */ };

size_t lsi_binding_cpus(lsi_hardware_thread **out)
{
    size_t found = 0;
    cpu_set_t *set = CPU_ALLOC(MOST);
    lsi_hardware_thread *cpus = malloc(MOST * sizeof(*cpus));
    if (set != NULL && cpus != NULL &&
        sched_getaffinity(0, CPU_ALLOC_SIZE(MOST), set) == 0) {
        for (int i = 0; i < MOST; i++)
            if (CPU_ISSET_S((size_t)i, CPU_ALLOC_SIZE(MOST), set))
                cpus[found++] = (lsi_hardware_thread){.cpu = i, .core = i};
    }
    CPU_FREE(set);
    *out = cpus;
    return found;
}
