#include "comm/bootstrap/nodes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/proc.h"
#include "comm/api/internode_open.h"
#include "comm/bootstrap/rendezvous.h"
#include "comm/core/agree.h"
#include "comm/health/sigterm.h"
#include "comm/node/space.h"
#include "comm/node/transport.h"
#include "comm/rendezvous/interface.h"

/*
 * The messages of each rank to all others: first its place, then its outcome.
 */
typedef struct card {
    uint64_t place; /* equal for ranks that may share memory */
    uint64_t job;   /* job number; rank 0's is used */
    int32_t id;     /* id of the group, if it spans nodes */
    int32_t unused;
    char address[64]; /* address of the host for other hosts, or "" */
} card;

typedef struct outcome {
    int32_t status;
    uint32_t bytes; /* bytes of its address on the wire */
    char text[248]; /* the error's message */
} outcome;

/* ---- the place of a rank ------------------------------------------------- */

static uint64_t hash_file(uint64_t h, const char *path)
{
    char text[64];
    const ssize_t got = lsi_proc_read(path, text, sizeof(text));
    return lsi_hash(h, text, got < 0 ? 0 : (size_t)got);
}

uint64_t lsi_own_place(void)
{
    const char *host_id = getenv("LOCKSTEP_HOSTID");
    const uid_t user = getuid();
    struct stat net = {0};
    uint64_t h = hash_file(LSI_HASH_START, "/proc/sys/kernel/random/boot_id");
    (void)stat("/proc/self/ns/net", &net);
    h = lsi_hash(h, &net.st_ino, sizeof(net.st_ino));
    h = lsi_hash(h, &user, sizeof(user));
    return host_id == NULL ? h : lsi_hash(h, host_id, strlen(host_id));
}

/* ---- meeting ------------------------------------------------------------- */

/* The ranks in this rank's place, as a separate world. */
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
 * No rank continues unless all do. Ranks that failed to connect on their node
 * arrive here after their timeout, so this timeout is a second longer.
 */
static ls_status agree(const lsi_reach *reach, const lsi_world *world,
                       outcome own, double seconds, outcome *outcomes)
{
    const ls_status met = own.status;
    char reason[512];
    snprintf(reason, sizeof(reason), "%s", met == LS_OK ? "" : ls_last_error());
    snprintf(own.text, sizeof(own.text), "%.*s", (int)sizeof(own.text) - 1,
             reason);
    if (seconds > 0)
        seconds += 1;
    LS_TRY(reach->gather(reach->context, &own, sizeof(own), outcomes, seconds));
    if (met != LS_OK)
        return lsi_fail(met, "%s", reason);
    for (int r = 0; r < world->size; r++) {
        if (outcomes[r].status == LS_OK)
            continue;
        return lsi_fail(lsi_error_of_peer(outcomes[r].status),
                        "rank %d could not join the group: %.*s", r,
                        (int)sizeof(outcomes[r].text), outcomes[r].text);
    }
    return LS_OK;
}

ls_status lsi_meet_agreed(const lsi_reach *reach, const lsi_world *world,
                          ls_status able, double seconds)
{
    static _Thread_local outcome outcomes[LSI_MAX_RANKS];
    return agree(reach, world, (outcome){.status = able}, seconds, outcomes);
}

static ls_status meet_locally(const lsi_world *world, double seconds,
                              ls_group **out)
{
    return world->size == 1 ? ls_group_open_threads(out, 1)
                            : lsi_rendezvous(world, seconds, out);
}

/* The number in the world of a rank of this rank's place. */
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
        own =
            lsi_space_allocate(local, lsi_region_layout_of(world->size).bytes);
    const ls_status status =
        lsi_exchange(local, &call, &own, sizeof(own), offsets);
    const lsi_failure_record *failure = lsi_failure_of(local);
    *offset = offsets[0];
    if (status == LS_ERR_PEER_DEAD && failure != NULL)
        return lsi_fail(status,
                        "rank %d died while the ranks were connecting; this is "
                        "rank %d of %d",
                        number_of(world, cards, failure->rank_a), world->rank,
                        world->size);
    return status;
}

/* ---- leaving ------------------------------------------------------------- */

static pid_t joined; /* the process that has; not a child that it forks */
static const lsi_wire *joined_by;

/*
 * A process must leave the wire properly, but leaving waits for all ranks. A
 * process that fails just ends, and the launcher ends the other ranks. MPICH's
 * launcher does so by SIGKILL, so they get a moment to report the error.
 */
static void leave(int status, void *unused)
{
    const struct timespec moment = {.tv_nsec = 400L * 1000 * 1000};
    (void)unused;
    if (getpid() != joined)
        return;
    if (status != 0) {
        (void)nanosleep(&moment, NULL);
        return;
    }
    lsi_wire_lock();
    joined_by->close();
    lsi_wire_unlock();
}

/* A process that uses MPI and UCX leaves the first one. */
static void leave_at_the_end(const lsi_wire *wire)
{
    lsi_wire_lock();
    if (joined != getpid()) {
        joined = getpid();
        joined_by = wire;
        on_exit(leave, NULL);
    }
    lsi_wire_unlock();
}

/* ---- the wire ------------------------------------------------------------ */

enum { MOST_ADDRESS_BYTES = 32 * 1024 };

/* The others may be of another version. */
static ls_status find_longest(const lsi_world *world, const outcome *outcomes,
                              size_t *most)
{
    *most = 0;
    for (int r = 0; r < world->size; r++) {
        const size_t bytes = outcomes[r].bytes;
        if (bytes == 0 || bytes > MOST_ADDRESS_BYTES)
            return lsi_fail(LS_ERR_FORMAT,
                            "rank %d sent a network address of %zu bytes, but "
                            "this length is not valid. Link all ranks with the "
                            "same version of the library",
                            r, bytes);
        *most = bytes > *most ? bytes : *most;
    }
    return LS_OK;
}

/* The state once all ranks have sent their places. */
typedef struct gathering {
    const lsi_reach *reach;
    const lsi_world *world;
    double seconds;
    card *cards;
    lsi_internode_plan plan; /* its local group is open */
} gathering;

/* The addresses on the wire of all ranks, by rank; UCX only. */
static ls_status gather_addresses(const gathering *g,
                                  const lsi_wire_opened *own, size_t most,
                                  void **all)
{
    const size_t n = (size_t)g->world->size;
    LS_TRY(lsi_alloc_zeroed(all, (n + 1) * most, LS_MEMORY_COMM,
                            "the addresses of the ranks"));
    char *padded = (char *)*all + n * most;
    memcpy(padded, own->address, own->bytes);
    const ls_status status =
        g->reach->gather(g->reach->context, padded, most, *all, g->seconds);
    if (status != LS_OK)
        lsi_free(*all);
    return status;
}

/* The number on the wire of the process of each rank. */
static ls_status number_peers(const gathering *g, const lsi_opened_wire *by,
                              const outcome *outcomes, int *peer)
{
    void *all = NULL;
    size_t bytes = 0;
    for (int r = 0; r < g->world->size; r++)
        peer[r] = r;
    if (by->wire == NULL || by->wire->meet == NULL)
        return LS_OK;
    LS_TRY(find_longest(g->world, outcomes, &bytes));
    LS_TRY(gather_addresses(g, &by->as, bytes, &all));
    lsi_wire_lock();
    const int met = by->wire->meet(all, bytes, g->world->size, peer);
    lsi_wire_unlock();
    lsi_free(all);
    return met == 0 ? LS_OK
                    : lsi_fail(LS_ERR_SYSTEM, "%s: %s", by->wire->library,
                               by->wire->error());
}

/* ---- all together -------------------------------------------------------- */

/* The plan's local group is taken over. */
static ls_status join_nodes(gathering *g, const lsi_opened_wire *by,
                            const outcome *outcomes, ls_group **out)
{
    static _Thread_local int places[LSI_MAX_RANKS], ids[LSI_MAX_RANKS];
    static _Thread_local int ranks[LSI_MAX_RANKS], peers[LSI_MAX_RANKS];
    lsi_internode_plan plan = g->plan;
    plan.wire = by->wire;
    plan.rank = g->world->rank;
    plan.size = g->world->size;
    plan.job = g->cards[0].job;
    plan.id = ids;
    plan.place = places;
    plan.world = ranks;
    plan.peer = peers;
    number_places(g->world, g->cards, places);
    for (int r = 0; r < plan.size; r++) {
        ids[r] = g->cards[r].id;
        ranks[r] = r;
    }
    const ls_status status = number_peers(g, by, outcomes, peers);
    if (status != LS_OK) {
        ls_group_close(&plan.local);
        return status;
    }
    leave_at_the_end(by->wire);
    return lsi_internode_open(&plan, out);
}

/* The address of a rank of another place, for the route to it. */
static const char *address_of_another(const lsi_world *world, card *cards)
{
    for (int r = 0; r < world->size; r++) {
        if (cards[r].place == cards[world->rank].place)
            continue;
        cards[r].address[sizeof(cards[r].address) - 1] = '\0';
        if (cards[r].address[0] != '\0')
            return cards[r].address;
    }
    return "";
}

static ls_status meet_across(gathering *g, ls_status met, ls_group **out)
{
    static _Thread_local outcome outcomes[LSI_MAX_RANKS];
    const lsi_reach *reach = g->reach;
    lsi_opened_wire by = {.wire = NULL};
    if (met == LS_OK)
        met =
            agree_on_region(g->plan.local, g->world, g->cards, &g->plan.offset);
    if (met == LS_OK)
        met = reach->prepare(reach->context, g->world,
                             address_of_another(g->world, g->cards), g->seconds,
                             &by);
    const outcome own = {.status = met, .bytes = (uint32_t)by.as.bytes};
    const ls_status status = agree(reach, g->world, own, g->seconds, outcomes);
    if (status != LS_OK) {
        ls_group_close(&g->plan.local);
        return status;
    }
    ls_group *made = NULL;
    LS_TRY(join_nodes(g, &by, outcomes, &made));
    const ls_status minded =
        reach->minds_signals ? lsi_sigterm_listen(made) : LS_OK;
    if (minded != LS_OK)
        ls_group_close(&made);
    else
        *out = made;
    return minded;
}

/*
 * Whether a rank that connects in this place has died; `local` is its number
 * there.
 */
static bool has_died_here(const void *observer, int local)
{
    const gathering *g = observer;
    return g->reach->has_died(g->reach->context,
                              number_of(g->world, g->cards, local));
}

/*
 * The ranks of one place share the outcome of connecting. Only ranks of several
 * places exchange outcomes.
 */
static ls_status meet_all(const lsi_reach *reach, const lsi_world *world,
                          double seconds, ls_group **out)
{
    static _Thread_local card cards[LSI_MAX_RANKS];
    gathering g = {reach, world, seconds, cards, {.local = NULL}};
    card own = {.place = lsi_own_place(),
                .job = lsi_job_number(),
                .id = lsi_internode_new_id()};
    lsi_interface_address(own.address, sizeof(own.address));
    LS_TRY(reach->gather(reach->context, &own, sizeof(own), cards, seconds));
    lsi_world here = local_world(world, cards);
    here.has_died = reach->has_died == NULL ? NULL : has_died_here;
    here.observer = &g;
    const ls_status met = meet_locally(&here, seconds, &g.plan.local);
    if (here.size != world->size)
        return meet_across(&g, met, out);
    LS_TRY(met);
    if (reach->end != NULL)
        reach->end(reach->context);
    here.has_died = NULL;
    if (reach->alone != NULL)
        *reach->alone = here;
    *out = g.plan.local;
    return LS_OK;
}

ls_status lsi_meet_on_nodes(const lsi_reach *reach, const lsi_world *world,
                            double seconds, ls_group **out)
{
    const lsi_world *alone = reach->alone;
    if (alone != NULL && alone->size == world->size &&
        alone->rank == world->rank)
        return lsi_rendezvous(alone, seconds, out);
    if (reach->begin != NULL)
        LS_TRY(reach->begin(reach->context, world, seconds));
    return meet_all(reach, world, seconds, out);
}
