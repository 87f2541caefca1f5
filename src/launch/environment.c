/*
 * torchrun's variables, our own job id, and none of anybody else's.
 */
#include "launch/environment.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"

/*
 * Set by other launchers around this one (`srun lockstep run`, a shell inside
 * mpirun): for a rank of ours they describe the wrong job.
 */
static const char *const foreign[] = {
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "OMPI_COMM_WORLD_NODE_RANK",
    "PMIX_RANK",
    "PMI_RANK",
    "PMI_SIZE",
    "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "SLURM_NPROCS",
    "SLURM_LOCALID",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_USE_AGENT_STORE",
};

enum { OWN_VARIABLES = 12 };

/* The kernel picks a free port; it stays free unless somebody is very quick. */
static ls_status free_port(int *port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    socklen_t bytes = sizeof(address);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool found =
        fd >= 0 && bind(fd, (struct sockaddr *)&address, bytes) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &bytes) == 0;
    ls_status status = LS_OK;
    if (!found)
        status = lsi_fail_errno(LS_ERR_SYSTEM,
                                "no free port on 127.0.0.1 for MASTER_PORT");
    if (fd >= 0)
        close(fd);
    if (found)
        *port = ntohs(address.sin_port);
    return status;
}

ls_status lsi_job_identity_new(lsi_job_identity *job, int ranks, int threads,
                               int port)
{
    unsigned char random[16];
    if (getrandom(random, sizeof(random), 0) != sizeof(random))
        return lsi_fail_errno(LS_ERR_SYSTEM,
                              "cannot get random numbers for a job id");
    if (port == 0)
        LS_TRY(free_port(&port));
    *job = (lsi_job_identity){.ranks = ranks, .threads = threads, .port = port};
    for (size_t i = 0; i < sizeof(random); i++)
        snprintf(job->id + 2 * i, 3, "%02x", random[i]);
    return LS_OK;
}

/* Whether `entry` is "NAME=..." with the name of `other`'s "NAME[=...]". */
static bool same_name(const char *entry, const char *other)
{
    const size_t length = strcspn(other, "=");
    return strncmp(entry, other, length) == 0 && entry[length] == '=';
}

static bool is_replaced(const char *entry, char *const *own, size_t n_own)
{
    for (size_t i = 0; i < n_own; i++) {
        if (same_name(entry, own[i]))
            return true;
    }
    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
        if (same_name(entry, foreign[i]))
            return true;
    }
    return false;
}

static bool add(char **list, size_t *n, const char *name, int value)
{
    if (asprintf(&list[*n], "%s=%d", name, value) < 0) {
        list[*n] = NULL;
        return false;
    }
    (*n)++;
    return true;
}

static bool add_own(char **list, size_t *n, const lsi_job_identity *job,
                    int rank)
{
    const struct {
        const char *name;
        int value;
    } numbers[] = {
        {"RANK", rank},
        {"LOCAL_RANK", rank},
        {"WORLD_SIZE", job->ranks},
        {"LOCAL_WORLD_SIZE", job->ranks},
        {"GROUP_RANK", 0},
        {"GROUP_WORLD_SIZE", 1},
        {"MASTER_PORT", job->port},
        {"OMP_NUM_THREADS", job->threads},
    };
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (!add(list, n, numbers[i].name, numbers[i].value))
            return false;
    }
    if ((list[*n] = strdup("MASTER_ADDR=127.0.0.1")) == NULL)
        return false;
    (*n)++;
    if (asprintf(&list[*n], "LOCKSTEP_JOB=%s", job->id) < 0) {
        list[*n] = NULL;
        return false;
    }
    (*n)++;
    return true;
}

static bool add_inherited(char **list, size_t *n)
{
    const size_t n_own = *n;
    for (char **entry = environ; *entry != NULL; entry++) {
        if (is_replaced(*entry, list, n_own))
            continue;
        if ((list[*n] = strdup(*entry)) == NULL)
            return false;
        (*n)++;
    }
    return true;
}

ls_status lsi_environment_new(const lsi_job_identity *job, int rank,
                              char ***out)
{
    size_t inherited = 0;
    while (environ[inherited] != NULL)
        inherited++;
    char **list = calloc(inherited + OWN_VARIABLES + 1, sizeof(char *));
    size_t n = 0;
    if (list == NULL || !add_own(list, &n, job, rank) ||
        !add_inherited(list, &n)) {
        lsi_environment_free(list);
        return lsi_fail(LS_ERR_MEMORY, "no memory for a rank's environment");
    }
    *out = list;
    return LS_OK;
}

void lsi_environment_free(char **environment)
{
    for (char **entry = environment; entry != NULL && *entry != NULL; entry++)
        free(*entry);
    free(environment);
}
