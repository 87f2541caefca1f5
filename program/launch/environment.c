/* torchrun's variables and our job id, without those of other launchers. */
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
 * mpirun), or left over from another job. For our ranks they describe the wrong
 * job.
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
    "TORCHELASTIC_ERROR_FILE",
    "LOCKSTEP_CRASH_FILE",
    "LOCKSTEP_RENDEZVOUS",
    "LOCKSTEP_SECRET",
    "LOCKSTEP_SECRET_FILE",
};

enum { OWN_VARIABLES = 32 };

/*
 * The kernel picks a free port. It stays free unless another process binds it
 * very quickly.
 */
ls_status lsi_free_port(bool everywhere, int *port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_addr.s_addr = htonl(everywhere ? INADDR_ANY : INADDR_LOOPBACK),
    };
    socklen_t bytes = sizeof(address);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool found =
        fd >= 0 && bind(fd, (struct sockaddr *)&address, bytes) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &bytes) == 0;
    ls_status status = LS_OK;
    if (!found)
        status = lsi_fail_errno(LS_ERR_SYSTEM,
                                "cannot find a free port for MASTER_PORT");
    if (fd >= 0)
        close(fd);
    if (found)
        *port = ntohs(address.sin_port);
    return status;
}

ls_status lsi_random_id(char out[33])
{
    unsigned char random[16];
    if (getrandom(random, sizeof(random), 0) != sizeof(random))
        return lsi_fail_errno(LS_ERR_SYSTEM,
                              "cannot get random numbers for a job id");
    for (size_t i = 0; i < sizeof(random); i++)
        snprintf(out + 2 * i, 3, "%02x", random[i]);
    return LS_OK;
}

ls_status lsi_job_identity_new(lsi_job_identity *job, int ranks, int threads,
                               int port)
{
    if (port == 0)
        LS_TRY(lsi_free_port(false, &port));
    *job = (lsi_job_identity){
        .ranks = ranks, .threads = threads, .port = port, .role = "default"};
    job->run_id = job->id;
    return lsi_random_id(job->id);
}

void lsi_job_identity_of_place(lsi_job_identity *job,
                               const lsi_job_place *place, int ranks,
                               int threads)
{
    *job = (lsi_job_identity){.ranks = ranks,
                              .threads = threads,
                              .port = place->port,
                              .run_id = place->run,
                              .role = "default",
                              .place = place};
    memcpy(job->id, place->job, sizeof(job->id));
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

/* A list of variables that grows; `good` is false after a failed allocation. */
typedef struct variables {
    char **list;
    size_t n;
    bool good;
} variables;

static void add_text(variables *v, const char *name, const char *value)
{
    if (!v->good)
        return;
    v->good = asprintf(&v->list[v->n], "%s=%s", name, value) >= 0;
    if (v->good)
        v->n++;
    else
        v->list[v->n] = NULL;
}

static void add_number(variables *v, const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof(text), "%d", value);
    add_text(v, name, text);
}

static lsi_job_place only_node(const lsi_job_identity *job)
{
    return (lsi_job_place){
        .groups = 1, .world = job->ranks, .master = "127.0.0.1"};
}

/* As torchrun sets them for the groups (nodes) and the single role of a job. */
static void add_numbers(variables *v, const lsi_job_identity *job,
                        const lsi_job_place *place, int rank)
{
    const struct {
        const char *name;
        int value;
    } numbers[] = {
        {"RANK", place->offset + rank},
        {"LOCAL_RANK", rank},
        {"WORLD_SIZE", place->world},
        {"LOCAL_WORLD_SIZE", job->ranks},
        {"GROUP_RANK", place->group},
        {"GROUP_WORLD_SIZE", place->groups},
        {"ROLE_RANK", place->offset + rank},
        {"ROLE_WORLD_SIZE", place->world},
        {"MASTER_PORT", job->port},
        {"OMP_NUM_THREADS", job->threads},
        {"TORCHELASTIC_RESTART_COUNT", job->restart},
        {"TORCHELASTIC_MAX_RESTARTS", job->max_restarts},
        {"LOCKSTEP_RESTART", job->restart},
    };
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        add_number(v, numbers[i].name, numbers[i].value);
}

/* Copies a variable that no other job may see, such as a secret. */
static void add_if_set(variables *v, const char *name)
{
    const char *value = getenv(name);
    if (value != NULL)
        add_text(v, name, value);
}

static void add_own(variables *v, const lsi_job_identity *job, int rank)
{
    const lsi_job_place only = only_node(job);
    const lsi_job_place *const place = job->place != NULL ? job->place : &only;
    add_numbers(v, job, place, rank);
    add_text(v, "MASTER_ADDR", place->master);
    add_text(v, "ROLE_NAME", job->role);
    add_text(v, "TORCHELASTIC_RUN_ID", job->run_id);
    /* Rank 0 makes the store of its group itself: the launcher has none. */
    add_text(v, "TORCHELASTIC_USE_AGENT_STORE", "False");
    add_text(v, "LOCKSTEP_JOB", job->id);
    add_text(v, "LOCKSTEP_RUN", job->run_id);
    if (job->error_file != NULL)
        add_text(v, "TORCHELASTIC_ERROR_FILE", job->error_file);
    if (job->crash_file != NULL)
        add_text(v, "LOCKSTEP_CRASH_FILE", job->crash_file);
    if (job->place == NULL)
        return;
    add_text(v, "LOCKSTEP_RENDEZVOUS", place->endpoint);
    add_if_set(v, "LOCKSTEP_SECRET");
    add_if_set(v, "LOCKSTEP_SECRET_FILE");
    /* Otherwise gloo uses the address of the host's name, possibly loopback. */
    if (getenv("GLOO_SOCKET_IFNAME") == NULL)
        add_text(v, "GLOO_SOCKET_IFNAME", place->interface);
}

static void add_inherited(variables *v)
{
    const size_t n_own = v->n;
    for (char **entry = environ; v->good && *entry != NULL; entry++) {
        if (is_replaced(*entry, v->list, n_own))
            continue;
        v->list[v->n] = strdup(*entry);
        v->good = v->list[v->n] != NULL;
        v->n += v->good ? 1 : 0;
    }
}

ls_status lsi_environment_new(const lsi_job_identity *job, int rank,
                              char ***out)
{
    size_t inherited = 0;
    while (environ[inherited] != NULL)
        inherited++;
    variables v = {calloc(inherited + OWN_VARIABLES + 1, sizeof(char *)), 0,
                   true};
    v.good = v.list != NULL;
    add_own(&v, job, rank);
    add_inherited(&v);
    if (!v.good) {
        lsi_environment_free(v.list);
        return lsi_fail(LS_ERR_MEMORY,
                        "not enough memory for the environment of a rank");
    }
    *out = v.list;
    return LS_OK;
}

void lsi_environment_free(char **environment)
{
    for (char **entry = environment; entry != NULL && *entry != NULL; entry++)
        free(*entry);
    free(environment);
}
