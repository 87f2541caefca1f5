#include "comm/bootstrap/environment.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/hash.h"
#include "comm/bootstrap/transports.h"
#include "comm/state/segment.h"

enum { FIELDS = 4 };

/* The names of one launcher; the local ones may be missing. */
typedef struct source {
    const char *names[FIELDS]; /* rank, size, local rank, local size */
} source;

static const source sources[] = {
    {{"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}},
    {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
      "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"}},
    {{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"}},
};

static const source slurm = {
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", NULL}};

enum { SOURCES = sizeof(sources) / sizeof(sources[0]) };

typedef struct field {
    const char *name; /* name of the variable that gave the value */
    int value;
} field;

static const char *variable(const char *name)
{
    const char *text = getenv(name);
    return text != NULL && *text != '\0' ? text : NULL;
}

static ls_status parse(const char *name, const char *text, int *out)
{
    char *end;
    const long value = strtol(text, &end, 10);
    if (*end != '\0' || value < 0 || value > 1 << 24)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "%s is '%s'; it should be a whole number of 0 or "
                        "more",
                        name, text);
    *out = (int)value;
    return LS_OK;
}

/* Adds the values of a source; they must agree with the present ones. */
static ls_status merge(const source *from, field fields[FIELDS])
{
    for (int i = 0; i < FIELDS && from->names[i] != NULL; i++) {
        const char *name = from->names[i];
        const char *text = variable(name);
        int value = 0;
        if (text == NULL)
            continue;
        LS_TRY(parse(name, text, &value));
        if (fields[i].name != NULL && fields[i].value != value)
            return lsi_fail(LS_ERR_ARGUMENT,
                            "the environment contradicts itself: %s is %d but "
                            "%s is %d; unset one of them",
                            fields[i].name, fields[i].value, name, value);
        if (fields[i].name == NULL)
            fields[i] = (field){name, value};
    }
    return LS_OK;
}

static ls_status check(const field fields[FIELDS], const lsi_world *world)
{
    if ((fields[0].name == NULL) != (fields[1].name == NULL))
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "%s is set, but the variable for %s is not; set both or neither",
            fields[0].name != NULL ? fields[0].name : fields[1].name,
            fields[0].name != NULL ? "the number of ranks" : "the rank");
    if (world->size < 1 || world->rank >= world->size)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "%s is %d, but %s is %d; the rank must be below the "
                        "number of ranks",
                        fields[0].name, world->rank, fields[1].name,
                        world->size);
    if (world->size > LSI_MAX_RANKS)
        return lsi_fail(LS_ERR_UNSUPPORTED,
                        "the job has %d ranks; at most %d are supported",
                        world->size, LSI_MAX_RANKS);
    return LS_OK;
}

/*
 * Checks the variables for this machine's ranks, which not all launchers set.
 */
static ls_status check_share(const field fields[FIELDS], int size)
{
    const field *rank = &fields[2], *share = &fields[3];
    if (share->name == NULL || share->value == 0)
        return LS_OK;
    if (share->value > size)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "%s is %d, but the job has only %d ranks", share->name,
                        share->value, size);
    if (rank->name != NULL && rank->value >= share->value)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "%s is %d, but it must be below %s (%d)", rank->name,
                        rank->value, share->name, share->value);
    return LS_OK;
}

/* ---- Slurm --------------------------------------------------------------- */

/*
 * Whether srun has started this process. The shell of a batch script is also
 * task 0, and has the job's number of tasks, but Slurm sets no step for it. The
 * largest numbers of steps are for shells like it.
 */
static bool is_slurm_task(void)
{
    const char *step = variable("SLURM_STEP_ID");
    return step != NULL && strtoul(step, NULL, 10) < 0xfffffff0UL &&
           variable(slurm.names[0]) != NULL && variable(slurm.names[1]) != NULL;
}

/*
 * Reads a number from 1. Returns the text after it, or NULL without a number.
 */
static const char *read_number(const char *text, int64_t *out)
{
    char *end;
    *out = strtol(text, &end, 10);
    return end != text && *out >= 1 && *out <= 1 << 24 ? end : NULL;
}

/*
 * The ranks of a node by a list such as "2(x3),1": three nodes with 2, then one
 * with 1. 0 if the text is not a list, or not one of `total` ranks.
 */
static int ranks_on_node(const char *list, int node, int total)
{
    int64_t ranks, nodes, first = 0, sum = 0, found = 0;
    for (const char *at = list;; at++) {
        nodes = 1;
        at = read_number(at, &ranks);
        if (at != NULL && strncmp(at, "(x", 2) == 0) {
            at = read_number(at + 2, &nodes);
            at = at == NULL || *at != ')' ? NULL : at + 1;
        }
        if (at == NULL || (*at != ',' && *at != '\0'))
            return 0;
        if (node >= first && node < first + nodes)
            found = ranks;
        first += nodes;
        sum += ranks * nodes;
        if (*at == '\0')
            return sum == total ? (int)found : 0;
    }
}

/*
 * Neither srun nor its PMI sets the number of ranks on a rank's own node. The
 * step's variables have it for all nodes. All processes that a task of the step
 * starts inherit them; for the ranks of another launcher they fit only by
 * chance.
 */
static int slurm_local_size(const lsi_world *world)
{
    const char *list = variable("SLURM_STEP_TASKS_PER_NODE");
    const char *id = variable("SLURM_NODEID"), *rank = variable("SLURM_PROCID");
    if (list == NULL || id == NULL || rank == NULL ||
        strtol(rank, NULL, 10) != world->rank)
        return 0;
    return ranks_on_node(list, (int)strtol(id, NULL, 10), world->size);
}

/* ---- the transport ------------------------------------------------------- */

/* Without this machine's number of ranks, the step's variables decide. */
static bool spans_nodes(const lsi_world *world, bool share_known)
{
    const char *nodes = variable("SLURM_STEP_NUM_NODES");
    return share_known ? world->local_size != world->size
                       : nodes != NULL && strcmp(nodes, "1") != 0;
}

static ls_status choose_transport(lsi_world *world, bool share_known)
{
    const char *text = variable("LOCKSTEP_TRANSPORT");
    const bool several = spans_nodes(world, share_known);
    const lsi_meeting *chosen = lsi_meeting_for(several);
    char names[64];
    if (text != NULL)
        chosen = lsi_meeting_find(text);
    if (chosen == NULL)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "LOCKSTEP_TRANSPORT is '%s'; it should be %s", text,
                        lsi_meeting_names(names, sizeof(names)));
    if (world->size == 1)
        return LS_OK; /* needs no transport */
    if (several && chosen->reaches == LSI_REACHES_MACHINE)
        return lsi_fail(LS_ERR_UNSUPPORTED,
                        "LOCKSTEP_TRANSPORT is %s, but this transport works on "
                        "one machine only, and only %d of %d ranks are on this "
                        "machine. Unset LOCKSTEP_TRANSPORT",
                        text, world->local_size, world->size);
    world->transport = chosen;
    return LS_OK;
}

/* ---- the meeting point --------------------------------------------------- */

/* Two independent 64-bit hashes of all that identifies the job. */
typedef struct identity {
    uint64_t a, b;
    bool known;
} identity;

static void add(identity *id, const char *text)
{
    static const unsigned char end = 0xff; /* which no text has */
    id->a = lsi_hash(lsi_hash(id->a, text, strlen(text)), &end, 1);
    id->b = lsi_hash(lsi_hash(id->b, text, strlen(text)), &end, 1);
}

static void add_variable(identity *id, const char *name)
{
    const char *text = variable(name);
    add(id, text == NULL ? "" : text);
    id->known = id->known || text != NULL;
}

static void set_name(lsi_world *world, const identity *id)
{
    snprintf(world->name, sizeof(world->name), "lockstep-%ld-%016llx%016llx",
             (long)getuid(), (unsigned long long)id->a,
             (unsigned long long)id->b);
}

/* LOCKSTEP_JOB alone, if it is set; otherwise all variables of launchers. */
static void name_meeting_point(lsi_world *world)
{
    static const char *const ids[] = {
        "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT",
        "PMIX_NAMESPACE",      "SLURM_JOB_ID",
        "SLURM_STEP_ID",       "MASTER_ADDR",
        "MASTER_PORT"};
    identity id = {LSI_HASH_START, 0x9ae16a3b2f90404fu, false};
    add_variable(&id, "LOCKSTEP_JOB");
    if (!id.known)
        for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
            add_variable(&id, ids[i]);
    if (!id.known) { /* at least the same launcher must have started them */
        char parent[32];
        snprintf(parent, sizeof(parent), "%ld", (long)getppid());
        add(&id, parent);
    }
    set_name(world, &id);
    world->named_by = "LOCKSTEP_JOB, MASTER_ADDR, MASTER_PORT";
}

void lsi_world_set_name(lsi_world *world, const char *text)
{
    identity id = {LSI_HASH_START, 0x51afd7ed558ccd6du, false};
    add(&id, text);
    set_name(world, &id);
}

ls_status lsi_world_from_env(lsi_world *out)
{
    field fields[FIELDS] = {{0}};
    for (int i = 0; i < SOURCES; i++)
        LS_TRY(merge(&sources[i], fields));
    if (fields[0].name == NULL && fields[1].name == NULL && is_slurm_task())
        LS_TRY(merge(&slurm, fields));
    lsi_world world = {.size = 1};
    if (fields[0].name != NULL || fields[1].name != NULL) {
        world.rank = fields[0].value;
        world.size = fields[1].value;
    }
    world.local_rank = fields[2].name != NULL ? fields[2].value : world.rank;
    world.local_size =
        fields[3].name != NULL ? fields[3].value : slurm_local_size(&world);
    const bool share_known = world.local_size > 0;
    if (!share_known)
        world.local_size = world.size;
    LS_TRY(check(fields, &world));
    LS_TRY(check_share(fields, world.size));
    LS_TRY(choose_transport(&world, share_known));
    name_meeting_point(&world);
    world.job = variable("LOCKSTEP_JOB");
    *out = world;
    return LS_OK;
}
