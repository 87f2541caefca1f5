/* What does not depend on who describes the machine. */
#include "launch/topology.h"

#include <stdlib.h>

#include "base/error.h"

void lsi_topology_free(lsi_topology *machine)
{
    free(machine->cpus);
    free(machine->nodes);
    *machine = (lsi_topology){0};
}

ls_status lsi_topology_restrict(lsi_topology *machine, const lsi_cpuset *to)
{
    size_t left = 0;
    for (size_t i = 0; i < machine->n; i++)
        left += machine->cpus[i].allowed &&
                lsi_cpuset_has(to, machine->cpus[i].cpu);
    if (left == 0)
        return lsi_fail(LS_ERR_ARGUMENT, "none of these CPUs is allowed");
    for (size_t i = 0; i < machine->n; i++)
        machine->cpus[i].allowed = machine->cpus[i].allowed &&
                                   lsi_cpuset_has(to, machine->cpus[i].cpu);
    return LS_OK;
}
