#include "comm/net/mpi/modules.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

typedef struct mpi {
    const char *name; /* of the module */
    const char *text;
    const char *variables[3]; /* its launchers set one of these */
} mpi;

/* PMIx is what Open MPI speaks, PMI what MPICH and its relatives do. */
static const mpi known[] = {
    {"openmpi", "Open MPI", {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK"}},
    {"mpich", "MPICH", {"PMI_RANK", "PMI_FD", "PMI_PORT"}},
};

enum { KNOWN = sizeof(known) / sizeof(known[0]), VARIABLES = 3 };

/* ---- where they are ------------------------------------------------------ */

/* The folder of the library, or of the program that it is linked into. */
static void own_folder(char *folder)
{
    Dl_info info;
    const char *end = NULL;
    folder[0] = '\0';
    if (dladdr((const void *)known, &info) != 0 && info.dli_fname != NULL &&
        strchr(info.dli_fname, '/') != NULL) {
        if (realpath(info.dli_fname, folder) == NULL)
            folder[0] = '\0';
    }
    if (folder[0] == '\0') { /* started by a bare name */
        const ssize_t length = readlink("/proc/self/exe", folder, PATH_MAX - 1);
        folder[length < 0 ? 0 : length] = '\0';
    }
    end = strrchr(folder, '/');
    folder[end == NULL ? 0 : end - folder] = '\0';
}

/* Where one was told; in a folder beside the library; from the program's. */
static bool find_module(const char *name, char *path, size_t bytes)
{
    char own[PATH_MAX];
    own_folder(own);
    const char *told = getenv("LOCKSTEP_MODULES");
    const char *const from[] = {told == NULL ? "" : told, own, own};
    static const char *const to[] = {"", "/" LSI_MODULES,
                                     "/" LSI_MODULES_FROM_PROGRAM};
    for (int i = 0; i < 3; i++) {
        if (from[i][0] == '\0')
            continue;
        const int length = snprintf(path, bytes, "%s%s/liblockstep-mpi-%s.so",
                                    from[i], to[i], name);
        if (length < (int)bytes && access(path, R_OK) == 0)
            return true;
    }
    return false;
}

const char *lsi_wire_modules(char *text, size_t bytes)
{
    char path[PATH_MAX + 64];
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < KNOWN && used < bytes; i++)
        if (find_module(known[i].name, path, sizeof(path)))
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
                        "no MPI has started these ranks: none of "
                        "OMPI_COMM_WORLD_SIZE, PMIX_RANK and PMI_RANK is set; "
                        "start them by mpirun, or by srun --mpi=pmix or "
                        "--mpi=pmi2");
    *out = by;
    if (name == NULL || *name == '\0' || strcmp(name, by->name) == 0)
        return LS_OK;
    for (int i = 0; i < KNOWN; i++)
        if (strcmp(name, known[i].name) == 0) {
            *out = &known[i];
            if (has_started(&known[i]))
                return LS_OK;
            return lsi_fail(LS_ERR_UNSUPPORTED,
                            "LOCKSTEP_MPI asks for %s, but %s has started "
                            "these ranks (%s is set)",
                            known[i].text, by->text, by->variables[0]);
        }
    return lsi_fail(LS_ERR_ARGUMENT,
                    "LOCKSTEP_MPI is \"%s\"; it should be openmpi or mpich",
                    name);
}

ls_status lsi_wire_load(const lsi_wire **out)
{
    char path[PATH_MAX + 64], there[64];
    const mpi *chosen = NULL;
    LS_TRY(choose(&chosen));
    if (!find_module(chosen->name, path, sizeof(path))) {
        lsi_wire_modules(there, sizeof(there));
        return lsi_fail(LS_ERR_UNSUPPORTED,
                        "%s has started these ranks, but there is no "
                        "liblockstep-mpi-%s.so in " LSI_MODULES
                        " beside the library (modules there: %s); build it "
                        "where %s is installed",
                        chosen->text, chosen->name,
                        there[0] == '\0' ? "none" : there, chosen->text);
    }
    /* An MPI library loads parts of its own, which look for its symbols. */
    void *module = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (module == NULL)
        return lsi_fail(LS_ERR_UNSUPPORTED,
                        "%s has started these ranks, but %s cannot be loaded: "
                        "%s",
                        chosen->text, path, dlerror());
    const lsi_wire *(*get)(void) = NULL;
    void *symbol = dlsym(module, LSI_WIRE_SYMBOL);
    memcpy(&get, &symbol, sizeof(get));
    const lsi_wire *wire = get == NULL ? NULL : get();
    if (wire == NULL || wire->version != LSI_WIRE_VERSION)
        return lsi_fail(LS_ERR_UNSUPPORTED,
                        "%s belongs to another version of the library", path);
    *out = wire;
    return LS_OK;
}

ls_status lsi_wire_join(const lsi_wire *wire, int rank, int size,
                        double seconds)
{
    int seen_rank = 0, seen_size = 0;
    const mpi *by = starter();
    const int opened = wire->open(seconds, &seen_rank, &seen_size);
    if (opened == LSI_WIRE_LATE)
        return lsi_fail(LS_ERR_TIMEOUT,
                        "the %d ranks cannot meet by MPI (this is rank %d): %s",
                        size, rank, wire->error());
    if (opened != 0)
        return lsi_fail(LS_ERR_SYSTEM, "MPI: %s", wire->error());
    if (seen_rank == rank && seen_size == size)
        return LS_OK;
    return lsi_fail(LS_ERR_UNSUPPORTED,
                    "%s sees rank %d of %d, but %s has started rank %d of %d: "
                    "the module does not fit the launcher (versions, or "
                    "LOCKSTEP_MPI)",
                    wire->library, seen_rank, seen_size,
                    by == NULL ? "the launcher" : by->text, rank, size);
}
