#include "comm/net/mpi/modules.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/module.h"
#include "comm/net/internode.h"

typedef struct mpi {
    const char *name;   /* as LOCKSTEP_MPI has it */
    const char *module; /* its name */
    const char *text;
    const char *variables[3]; /* its launchers set one of these */
} mpi;

/* Open MPI uses PMIx; MPICH and its relatives use PMI. */
static const mpi known[] = {
    {"openmpi",
     "mpi-openmpi",
     "Open MPI",
     {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK"}},
    {"mpich", "mpi-mpich", "MPICH", {"PMI_RANK", "PMI_FD", "PMI_PORT"}},
};

enum { KNOWN = sizeof(known) / sizeof(known[0]), VARIABLES = 3 };

const char *lsi_mpi_modules(char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < KNOWN && used < bytes; i++)
        if (lsi_module_is_there(known[i].module))
            used += (size_t)snprintf(text + used, bytes - used, "%s%s",
                                     used == 0 ? "" : ", ", known[i].name);
    return text;
}

/* ---- which one ----------------------------------------------------------- */

static bool has_started(const mpi *m)
{
    for (int i = 0; i < VARIABLES && m->variables[i] != NULL; i++)
        if (getenv(m->variables[i]) != NULL)
            return true;
    return false;
}

static const mpi *starter(void)
{
    for (int i = 0; i < KNOWN; i++)
        if (has_started(&known[i]))
            return &known[i];
    return NULL;
}

static ls_status choose(const mpi **out)
{
    const char *name = getenv("LOCKSTEP_MPI");
    const mpi *by = starter();
    if (by == NULL)
        return lsi_fail(LS_ERR_UNSUPPORTED,
                        "these ranks were not started by an MPI launcher: none "
                        "of OMPI_COMM_WORLD_SIZE, PMIX_RANK and PMI_RANK is "
                        "set; use `lockstep run --nnodes`, mpirun, or srun "
                        "with --mpi=pmix or --mpi=pmi2");
    *out = by;
    if (name == NULL || *name == '\0' || strcmp(name, by->name) == 0)
        return LS_OK;
    for (int i = 0; i < KNOWN; i++)
        if (strcmp(name, known[i].name) == 0) {
            *out = &known[i];
            if (has_started(&known[i]))
                return LS_OK;
            return lsi_fail(LS_ERR_UNSUPPORTED,
                            "LOCKSTEP_MPI selects %s, but %s started these "
                            "ranks (%s is set)",
                            known[i].text, by->text, by->variables[0]);
        }
    return lsi_fail(LS_ERR_ARGUMENT,
                    "LOCKSTEP_MPI is '%s'; it should be openmpi or mpich",
                    name);
}

ls_status lsi_mpi_load(const lsi_wire **out)
{
    char there[64];
    const mpi *chosen = NULL;
    LS_TRY(choose(&chosen));
    if (!lsi_module_is_there(chosen->module)) {
        lsi_mpi_modules(there, sizeof(there));
        return lsi_fail(LS_ERR_UNSUPPORTED,
                        "%s started these ranks, but liblockstep-%s.so was not "
                        "found in " LSI_MODULES
                        " next to the library (modules found there: %s); build "
                        "the library where %s is installed",
                        chosen->text, chosen->module,
                        there[0] == '\0' ? "none" : there, chosen->text);
    }
    const ls_status status = lsi_wire_load(chosen->module, out);
    if (status == LS_OK)
        return LS_OK;
    return lsi_fail(status, "%s started these ranks, but %s", chosen->text,
                    ls_last_error());
}

ls_status lsi_mpi_join(const lsi_wire *wire, int rank, int size, double seconds)
{
    const mpi *by = starter();
    lsi_wire_opened seen = {.rank = 0};
    const int opened =
        wire->open(&(lsi_wire_start){.size = size, .seconds = seconds}, &seen);
    if (opened == LSI_WIRE_LATE)
        return lsi_fail(
            LS_ERR_TIMEOUT,
            "the %d ranks cannot connect through MPI (this is rank %d): %s",
            size, rank, wire->error());
    if (opened != 0)
        return lsi_fail(LS_ERR_SYSTEM, "MPI: %s", wire->error());
    if (seen.rank == rank && seen.size == size)
        return LS_OK;
    return lsi_fail(LS_ERR_UNSUPPORTED,
                    "%s reports rank %d of %d, but %s started rank %d of %d. "
                    "The MPI library does not match the launcher; check the "
                    "versions of both, and LOCKSTEP_MPI",
                    wire->library, seen.rank, seen.size,
                    by == NULL ? "the launcher" : by->text, rank, size);
}
