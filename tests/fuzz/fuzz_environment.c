/*
 * Environment variables from launchers and users. Lines: a byte that chooses
 * the variable, then its value.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/cpus.h"
#include "comm/api/group.h"
#include "comm/api/select.h"
#include "comm/bootstrap/environment.h"
#include "fuzz.h"

static const char *const names[] = {
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "PMI_RANK",
    "PMI_SIZE",
    "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS",
    "SLURM_PROCID",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_LOCALID",
    "SLURM_STEP_ID",
    "SLURM_STEP_NUM_NODES",
    "SLURM_STEP_TASKS_PER_NODE",
    "SLURM_NODEID",
    "LOCKSTEP_TRANSPORT",
    "LOCKSTEP_JOB",
    "LOCKSTEP_TIMEOUT",
    "LOCKSTEP_DETERMINISTIC",
    "LOCKSTEP_ISA",
    "OMP_NUM_THREADS",
    "MASTER_PORT",
};

enum { NAMES = sizeof(names) / sizeof(names[0]) };

static void read_world(void)
{
    lsi_world world;
    if (!fuzz_ok(lsi_world_from_env(&world)))
        return;
    fuzz_demand(world.size >= 1 && world.size <= LSI_MAX_RANKS);
    fuzz_demand(world.rank >= 0 && world.rank < world.size);
    fuzz_demand(world.local_size >= 1 && world.local_size <= world.size);
    fuzz_demand(world.local_rank >= 0);
    fuzz_demand(memchr(world.name, '\0', sizeof(world.name)) != NULL);
    fuzz_demand((world.transport == NULL) == (world.size == 1));
}

static void read_the_rest(void)
{
    double seconds = 0;
    lsi_isa isa = LSI_ISA_REF;
    lsi_select_table table = {.rows = 0};
    if (fuzz_ok(lsi_default_timeout(&seconds)))
        fuzz_demand(seconds >= 0);
    if (fuzz_ok(lsi_isa_from_env(&isa)))
        fuzz_demand(isa <= lsi_cpu_isa());
    fuzz_ok(lsi_select_environment(&table));
    fuzz_demand(lsi_threads_default(3) >= 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bool set[NAMES] = {false};
    fuzz_input in = {data, size};
    while (in.size > 0) {
        const int which = fuzz_byte(&in) % NAMES;
        char *value = fuzz_line(&in);
        setenv(names[which], value, 1);
        set[which] = true;
        free(value);
    }
    read_world();
    read_the_rest();
    for (int i = 0; i < NAMES; i++)
        if (set[i])
            unsetenv(names[i]);
    return 0;
}
