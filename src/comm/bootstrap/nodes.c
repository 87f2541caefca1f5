#include "comm/bootstrap/nodes.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/hash.h"
#include "comm/api/internode_open.h"
#include "comm/bootstrap/rendezvous.h"
#include "comm/core/agree.h"
#include "comm/health/sigterm.h"
#include "comm/node/space.h"
#include "comm/node/transport.h"

/* What each rank tells all others: where it is, and then how it went. */
typedef struct card {
    uint64_t place; /* equal for ranks that may share memory */
    uint64_t job;   /* rank 0's counts */
    int32_t id;     /* for the group, if that spans nodes */
    int32_t unused;
} card;

typedef struct outcome {
    int32_t status;
    char text[252]; /* why, if that is an error */
} outcome;

/* ---- where one is -------------------------------------------------------- */

static uint64_t hash_file(uint64_t h, const char *path)
{
    char text[64];
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t got = fd < 0 ? 0 : read(fd, text, sizeof(text));
    if (fd >= 0)
        close(fd);
    return lsi_hash(h, text, got < 0 ? 0 : (size_t)got);
}

uint64_t lsi_own_place(void)
{
    const char *told = getenv("LOCKSTEP_HOSTID");
    const uid_t user = getuid();
    struct stat net = {0};
    uint64_t h = hash_file(LSI_HASH_START, "/proc/sys/kernel/random/boot_id");
    (void)stat("/proc/self/ns/net", &net);
    h = lsi_hash(h, &net.st_ino, sizeof(net.st_ino));
    h = lsi_hash(h, &user, sizeof(user));
    return told == NULL ? h : lsi_hash(h, told, strlen(told));
}

/* ---- meeting ------------------------------------------------------------- */

/* The ranks in one's own place, as a world of their own. */
static lsi_world local_world(const lsi_world *world, const card *cards)
{
    const uint64_t place = cards[world->rank].place;
    lsi_world local = {.size = 0, .named_by = world->named_by};
    for (int r = 0; r < world->size; r++) {
        if (cards[r].place != place)
            continue;
        if (r == world->rank)
            local.rank = local.size;
        local.size++;
    }
    local.local_rank = local.rank;
    local.local_size = local.size;
    snprintf(local.name, sizeof(local.name), "lockstep-%ld-%016llx%016llx",
             (long)getuid(), (unsigned long long)cards[0].job,
             (unsigned long long)place);
    return local;
}

/* Each place is known by its first rank. */
static void number_places(const lsi_world *world, const card *cards,
                          int *places)
{
    for (int r = 0; r < world->size; r++) {
        places[r] = 0;
        while (cards[places[r]].place != cards[r].place)
            places[r]++;
    }
}

/*
 * Nobody goes on before all have met. Those whose meeting on their node was in
 * vain come as late as that took, and a little later.
 */
static ls_status agree(const lsi_reach *reach, const lsi_world *world,
                       ls_status met, double seconds, outcome *outcomes)
{
    outcome own = {.status = met};
    char reason[512];
    snprintf(reason, sizeof(reason), "%s", met == LS_OK ? "" : ls_last_error());
    snprintf(own.text, sizeof(own.text), "%.*s", (int)sizeof(own.text) - 1,
             reason);
    if (seconds > 0)
        seconds += 1;
    LS_TRY(reach->gather(&own, sizeof(own), outcomes, seconds));
    if (met != LS_OK)
        return lsi_fail(met, "%s", reason);
    for (int r = 0; r < world->size; r++) {
        if (outcomes[r].status == LS_OK)
            continue;
        return lsi_fail(lsi_error_of_peer(outcomes[r].status),
                        "rank %d could not join the others: %.*s", r,
                        (int)sizeof(outcomes[r].text), outcomes[r].text);
    }
    return LS_OK;
}

static ls_status meet_locally(const lsi_world *world, double seconds,
                              ls_group **out)
{
    return world->size == 1 ? ls_group_open_threads(out, 1)
                            : lsi_rendezvous(world, seconds, out);
}

/* Of a rank of this one's place: its number among all. */
static int number_of(const lsi_world *world, const card *cards, int local)
{
    int r = 0;
    for (; r < world->size; r++)
        if (cards[r].place == cards[world->rank].place && local-- == 0)
            return r;
    return r;
}

/* Where in the node's memory the whole group's control region is. */
static ls_status agree_on_region(ls_group *local, const lsi_world *world,
                                 const card *cards, uint64_t *offset)
{
    const lsi_call call = {.operation = LSI_OP_SPLIT};
    static _Thread_local uint64_t offsets[LSI_MAX_RANKS];
    uint64_t own = 0;
    if (local->rank == 0)
        own = lsi_space_take(local, lsi_region_layout_of(world->size).bytes);
    const ls_status status =
        lsi_exchange(local, &call, &own, sizeof(own), offsets);
    const lsi_failure *failure = lsi_failure_of(local);
    *offset = offsets[0];
    if (status == LS_ERR_PEER_DEAD && failure != NULL)
        return lsi_fail(status,
                        "rank %d died while the ranks were meeting; this is "
                        "rank %d of %d",
                        number_of(world, cards, failure->rank_a), world->rank,
                        world->size);
    return status;
}

static pid_t joined; /* the process that has; not a child that it forks */

/*
 * The wire wants to be left properly, but to leave waits for all others. A
 * process that fails just ends, and the launcher ends the rest; MPICH's does
 * that by SIGKILL, so they get a moment to say what has happened.
 */
static void leave(int status, void *wire)
{
    const struct timespec moment = {.tv_nsec = 400L * 1000 * 1000};
    if (getpid() != joined)
        return;
    if (status == 0)
        ((const lsi_wire *)wire)->close();
    else
        (void)nanosleep(&moment, NULL);
}

static ls_status join_nodes(lsi_internode_plan plan, ls_group **out)
{
    static _Thread_local int ranks[LSI_MAX_RANKS];
    for (int r = 0; r < plan.size; r++)
        ranks[r] = r;
    union {
        const lsi_wire *read;
        void *write;
    } last = {plan.wire};
    joined = getpid();
    on_exit(leave, last.write);
    plan.world = ranks;
    ls_group *made;
    LS_TRY(lsi_internode_open(&plan, &made));
    const ls_status listening = lsi_sigterm_listen(made);
    if (listening == LS_OK)
        *out = made;
    else
        ls_group_close(&made);
    return listening;
}

/* The ranks as they met again: those of the one node that they are on. */
static lsi_world alone;

/* The plan's local group is taken over. */
static ls_status meet_others(const lsi_reach *reach, const lsi_world *world,
                             lsi_internode_plan plan, const card *cards,
                             double seconds, ls_group **out)
{
    static _Thread_local int places[LSI_MAX_RANKS], ids[LSI_MAX_RANKS];
    plan.rank = world->rank;
    plan.size = world->size;
    plan.job = cards[0].job;
    plan.id = ids;
    plan.place = places;
    number_places(world, cards, places);
    for (int r = 0; r < world->size; r++)
        ids[r] = cards[r].id;
    const ls_status status = reach->open(world, seconds, &plan.wire);
    if (status != LS_OK) {
        ls_group_close(&plan.local);
        return status;
    }
    return join_nodes(plan, out);
}

static ls_status meet_all(const lsi_reach *reach, const lsi_world *world,
                          double seconds, ls_group **out)
{
    static _Thread_local card cards[LSI_MAX_RANKS];
    static _Thread_local outcome outcomes[LSI_MAX_RANKS];
    lsi_internode_plan plan = {.local = NULL};
    const card own = {.place = lsi_own_place(),
                      .job = lsi_job_number(),
                      .id = lsi_internode_new_id()};
    LS_TRY(reach->gather(&own, sizeof(own), cards, seconds));
    const lsi_world here = local_world(world, cards);
    const bool several = here.size != world->size;
    ls_status status = meet_locally(&here, seconds, &plan.local);
    if (status == LS_OK && several)
        status = agree_on_region(plan.local, world, cards, &plan.offset);
    if (status == LS_OK && several)
        status = reach->prepare();
    status = agree(reach, world, status, seconds, outcomes);
    if (status != LS_OK) {
        ls_group_close(&plan.local);
        return status;
    }
    if (several)
        return meet_others(reach, world, plan, cards, seconds, out);
    reach->end();
    alone = here;
    *out = plan.local;
    return LS_OK;
}

ls_status lsi_meet_on_nodes(const lsi_reach *reach, const lsi_world *world,
                            double seconds, ls_group **out)
{
    if (alone.size == world->size && alone.rank == world->rank)
        return lsi_rendezvous(&alone, seconds, out);
    LS_TRY(reach->begin(world, seconds));
    return meet_all(reach, world, seconds, out);
}
