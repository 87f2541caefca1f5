/*
 * Each rank stores its record. Rank 0 waits for all of them and stores the
 * bundle, or the reason of a failure. A rank that gets no answer of rank 0
 * looks itself which ranks have not come. Until the meeting is over, each rank
 * binds a name that shows that it lives. So rank 0 does not wait for a dead
 * rank, and no rank waits for a dead rank 0. The first call gives all ranks the
 * names of all.
 */
#include "comm/bootstrap/store_gather.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/missing.h"
#include "base/suspending_clock.h"
#include "comm/bootstrap/nodes.h"
#include "comm/bootstrap/socket.h"
#include "comm/state/segment.h"

#define SLICE_SECONDS 0.5  /* between two checks for dead ranks */
#define PROBE_SECONDS 1e-3 /* to wait for a key that should be present */
#define HOLD_SECONDS  0.1  /* to wait for a key ahead of LS_ERR_PEER_DEAD */
#define GRACE_SECONDS 1.0  /* to wait for the reason why rank 0 gives up */

enum { KEY_BYTES = LSI_STORE_GATHER_NAME + 64, NAMES_BYTES = 128 };

/* Precedes the data of a rank. */
typedef struct record {
    uint64_t owner; /* a number that no other process chooses */
    uint64_t place; /* where others can see its name; 0: nowhere */
    int32_t rank, size;
    uint64_t bytes;
} record;

/* Precedes the records of all ranks. */
typedef struct head {
    int32_t status, size;
    uint64_t bytes; /* of a record and what follows it */
    char text[496]; /* why, if status is an error */
} head;

/* The name that shows that a rank lives. */
typedef struct name_of_life {
    uint64_t owner, place; /* of the record; place 0: nowhere */
} name_of_life;

typedef struct lsi_store_gather_life {
    uint64_t place;
    int shown;            /* a descriptor, or -errno */
    bool all_known;       /* the first call is over */
    name_of_life known[]; /* by rank */
} lsi_store_gather_life;

/* One call. */
typedef struct call {
    lsi_store_gather *gather;
    uint64_t number;
    double seconds;
    lsi_deadline deadline;
    bool *came;          /* rank 0: whether each rank's record has arrived */
    size_t bytes;        /* of a record and what follows it */
    unsigned char *body; /* the records */
} call;

/* ---- the store ----------------------------------------------------------- */

static void name_key(const call *c, const char *what, int number, char *key)
{
    snprintf(key, KEY_BYTES, "%s/gather/%llu/%s%d", c->gather->job,
             (unsigned long long)c->number, what, number);
}

static ls_status get_value(const call *c, const char *what, int number,
                           void *data, size_t *bytes, double seconds)
{
    const ls_store *store = c->gather->store;
    char key[KEY_BYTES];
    name_key(c, what, number, key);
    return store->get(store->context, key, data, bytes, seconds);
}

static ls_status set_value(const call *c, const char *what, int number,
                           const void *data, size_t bytes)
{
    const ls_store *store = c->gather->store;
    char key[KEY_BYTES];
    name_key(c, what, number, key);
    return store->set(store->context, key, data, bytes);
}

static unsigned char *record_of(const call *c, int rank)
{
    return c->body + (size_t)rank * c->bytes;
}

/* ---- dead ranks ---------------------------------------------------------- */

static void name_life(uint64_t owner, char name[LSI_STORE_GATHER_NAME])
{
    snprintf(name, LSI_STORE_GATHER_NAME, "lockstep-meets-%016llx",
             (unsigned long long)owner);
}

static bool is_gone(const lsi_store_gather_life *life, const name_of_life *of)
{
    char name[LSI_STORE_GATHER_NAME];
    if (of->place == 0 || of->place != life->place)
        return false;
    name_life(of->owner, name);
    return !lsi_name_is_shown(name);
}

bool lsi_store_gather_has_died(const lsi_store_gather *gather, int rank)
{
    const lsi_store_gather_life *life = gather->life;
    return life != NULL && life->all_known && rank != gather->rank &&
           is_gone(life, &life->known[rank]);
}

/* In the first call: whether the rank has stored its record, and died since. */
static bool has_come_and_gone(const call *c, int rank)
{
    record r;
    size_t bytes = c->bytes;
    if (!c->came[rank])
        c->came[rank] = get_value(c, "", rank, record_of(c, rank), &bytes,
                                  PROBE_SECONDS) == LS_OK;
    if (!c->came[rank])
        return false;
    memcpy(&r, record_of(c, rank), sizeof(r));
    return r.rank == rank &&
           is_gone(c->gather->life, &(name_of_life){r.owner, r.place});
}

/*
 * Checks the ranks that this one can see; LS_OK if none is known to have died.
 * In the first call, ranks other than 0 check only rank 0, so that not all
 * check all.
 */
static ls_status check_ranks(const call *c)
{
    const lsi_store_gather *gather = c->gather;
    const bool all = gather->rank == 0 || gather->life->all_known;
    for (int r = 0; r < (all ? gather->size : 1); r++) {
        if (r == gather->rank)
            continue;
        if (gather->life->all_known ? lsi_store_gather_has_died(gather, r)
                                    : has_come_and_gone(c, r))
            return lsi_fail(LS_ERR_PEER_DEAD,
                            "rank %d died, or gave up, while the ranks were "
                            "connecting; this is rank %d of %d",
                            r, gather->rank, gather->size);
    }
    return LS_OK;
}

/*
 * Looks once more when time is up, so that it can also find keys that are
 * present. If a rank seems to have died, it looks once more for HOLD_SECONDS,
 * as a busy store may take that long. A rank that has seen the end of the
 * meeting drops its name, too.
 */
static ls_status await_value(const call *c, const char *what, int number,
                             void *data, size_t *bytes)
{
    const size_t room = *bytes;
    char reason[256];
    ls_status dead = LS_OK;
    for (;;) {
        const bool late = lsi_deadline_poll(c->deadline) == 0;
        const double patience = dead != LS_OK ? HOLD_SECONDS
                                : late        ? PROBE_SECONDS
                                              : SLICE_SECONDS;
        *bytes = room;
        const ls_status status =
            get_value(c, what, number, data, bytes, patience);
        if (status == LS_ERR_TIMEOUT && dead != LS_OK)
            return lsi_fail(dead, "%s", reason);
        if (status != LS_ERR_TIMEOUT || late)
            return status;
        dead = check_ranks(c);
        snprintf(reason, sizeof(reason), "%s",
                 dead != LS_OK ? ls_last_error() : "");
    }
}

/* Checks that the record found for this rank is this process's. */
static ls_status check_own(const call *c)
{
    record own;
    memcpy(&own, record_of(c, c->gather->rank), sizeof(own));
    if (own.owner == c->gather->owner)
        return LS_OK;
    return lsi_fail(LS_ERR_MISMATCH,
                    "two processes were started as rank %d, or another group "
                    "has used the same name in this store; use another name",
                    c->gather->rank);
}

/* ---- missing ranks ------------------------------------------------------- */

/* Writes the ranks without a record as text, and returns their number. */
static int name_missing(const call *c, char text[NAMES_BYTES])
{
    static _Thread_local char here[LSI_MAX_RANKS];
    for (int r = 0; r < c->gather->size; r++) {
        size_t bytes = c->bytes;
        here[r] =
            await_value(c, "", r, record_of(c, r), &bytes) != LS_ERR_TIMEOUT;
    }
    return lsi_missing_ranks(here, c->gather->size, text, NAMES_BYTES);
}

static ls_status fail_late(const call *c)
{
    char names[NAMES_BYTES];
    const int missing = name_missing(c, names);
    LS_TRY(check_own(c)); /* two of one rank: another one is missing */
    if (missing == 0)
        return lsi_fail(LS_ERR_TIMEOUT,
                        "rank 0 did not answer within %g s, although all %d "
                        "ranks have joined; this is rank %d",
                        c->seconds, c->gather->size, c->gather->rank);
    return lsi_fail(LS_ERR_TIMEOUT,
                    "%d of %d ranks did not join within %g s: %s", missing,
                    c->gather->size, c->seconds, names);
}

/* ---- rank 0 -------------------------------------------------------------- */

/* `fits`: the record has the expected number of bytes. */
static ls_status check_record(const call *c, int rank, bool fits)
{
    record r;
    memcpy(&r, record_of(c, rank), sizeof(r));
    if (!fits || r.bytes != c->bytes || r.rank != rank)
        return lsi_fail(
            LS_ERR_MISMATCH,
            "rank %d did not store the %zu bytes that rank 0 expects. Link all "
            "ranks with the same version of the library",
            rank, c->bytes);
    if (r.size != c->gather->size)
        return lsi_fail(LS_ERR_MISMATCH,
                        "world size mismatch: rank %d was started with %d "
                        "ranks, rank 0 with %d",
                        rank, r.size, c->gather->size);
    return rank == 0 ? check_own(c) : LS_OK;
}

static ls_status collect(const call *c)
{
    for (int r = 0; r < c->gather->size; r++) {
        size_t bytes = c->bytes;
        const ls_status status = await_value(c, "", r, record_of(c, r), &bytes);
        if (status == LS_ERR_TIMEOUT)
            return fail_late(c);
        if (status != LS_ERR_ARGUMENT) /* it is longer */
            LS_TRY(status);
        LS_TRY(check_record(c, r, status == LS_OK && bytes == c->bytes));
        c->came[r] = true;
    }
    return LS_OK;
}

/* Stores the bundle in one or more values. */
static ls_status set_bundle(const call *c)
{
    const size_t total = (size_t)c->gather->size * c->bytes;
    for (size_t at = 0, part = 1; at < total;
         at += LSI_STORE_VALUE_BYTES, part++) {
        const size_t left = total - at;
        LS_TRY(set_value(c, "all", (int)part, c->body + at,
                         left < LSI_STORE_VALUE_BYTES ? left
                                                      : LSI_STORE_VALUE_BYTES));
    }
    return LS_OK;
}

/* Stores the head last, so that a rank that finds it finds the bundle, too. */
static ls_status lead(const call *c)
{
    head h = {.size = c->gather->size, .bytes = c->bytes};
    ls_status status = collect(c);
    if (status == LS_OK)
        status = set_bundle(c);
    h.status = status;
    if (status != LS_OK)
        snprintf(h.text, sizeof(h.text), "%s", ls_last_error());
    const ls_status left = set_value(c, "all", 0, &h, sizeof(h));
    if (status != LS_OK)
        return lsi_fail(status, "%s", h.text);
    return left;
}

/* ---- other ranks --------------------------------------------------------- */

static ls_status check_head(const call *c, const head *h, size_t bytes)
{
    if (bytes != sizeof(*h))
        return lsi_fail(LS_ERR_FORMAT,
                        "rank 0 stored %zu bytes, but this rank expects %zu. "
                        "Link all ranks with the same version of the library",
                        bytes, sizeof(*h));
    if (h->size != c->gather->size)
        return lsi_fail(LS_ERR_MISMATCH,
                        "world size mismatch: rank %d was started with %d "
                        "ranks, rank 0 with %d",
                        c->gather->rank, c->gather->size, h->size);
    if (h->status != LS_OK)
        return lsi_fail(lsi_error_of_peer(h->status), "%.*s",
                        (int)sizeof(h->text), h->text);
    if (h->bytes != c->bytes)
        return lsi_fail(
            LS_ERR_MISMATCH,
            "rank 0 expects %llu bytes from each rank, but rank %d stored %zu. "
            "Link all ranks with the same version of the library",
            (unsigned long long)h->bytes, c->gather->rank, c->bytes);
    return LS_OK;
}

static ls_status await_bundle(const call *c)
{
    const size_t total = (size_t)c->gather->size * c->bytes;
    for (size_t at = 0, part = 1; at < total;
         at += LSI_STORE_VALUE_BYTES, part++) {
        const size_t left = total - at;
        size_t bytes =
            left < LSI_STORE_VALUE_BYTES ? left : LSI_STORE_VALUE_BYTES;
        const size_t whole = bytes;
        LS_TRY(await_value(c, "all", (int)part, c->body + at, &bytes));
        if (bytes != whole)
            return lsi_fail(
                LS_ERR_FORMAT,
                "rank 0 stored %zu bytes, but this rank expects %zu. Link all "
                "ranks with the same version of the library",
                bytes, whole);
    }
    return check_own(c);
}

static ls_status follow(const call *c)
{
    head h;
    size_t bytes = sizeof(h);
    const ls_status status = await_value(c, "all", 0, &h, &bytes);
    if (status == LS_ERR_TIMEOUT)
        return fail_late(c);
    LS_TRY(status);
    LS_TRY(check_head(c, &h, bytes));
    return await_bundle(c);
}

/* ---- all ranks ----------------------------------------------------------- */

/* Notes the names of all ranks. */
static void note_names(const call *c)
{
    lsi_store_gather_life *life = c->gather->life;
    for (int r = 0; r < c->gather->size; r++) {
        record from;
        memcpy(&from, record_of(c, r), sizeof(from));
        life->known[r] = (name_of_life){from.owner, from.place};
    }
    life->all_known = true;
}

static ls_status exchange_records(call *c, const void *send, size_t bytes,
                                  void *recv)
{
    const lsi_store_gather *gather = c->gather;
    const lsi_store_gather_life *life = gather->life;
    const record own = {.owner = gather->owner,
                        .place = life->shown >= 0 ? life->place : 0,
                        .rank = gather->rank,
                        .size = gather->size,
                        .bytes = c->bytes};
    unsigned char *mine = record_of(c, gather->rank);
    memcpy(mine, &own, sizeof(own));
    memcpy(mine + sizeof(own), send, bytes);
    LS_TRY(set_value(c, "", gather->rank, mine, c->bytes));
    LS_TRY(gather->rank == 0 ? lead(c) : follow(c));
    for (int r = 0; r < gather->size; r++)
        memcpy((unsigned char *)recv + (size_t)r * bytes,
               record_of(c, r) + sizeof(own), bytes);
    if (!life->all_known)
        note_names(c);
    return LS_OK;
}

/*
 * Allocates the records and the flags of arrived ranks, and exchanges the
 * records.
 */
static ls_status exchange_with_room(call *c, const void *send, size_t bytes,
                                    void *recv)
{
    const size_t n = (size_t)c->gather->size;
    void *block = NULL;
    LS_TRY(lsi_alloc_zeroed(&block, n * (c->bytes + sizeof(bool)),
                            LS_MEMORY_COMM, "records of the ranks"));
    c->body = block;
    c->came = (bool *)(c->body + n * c->bytes);
    const ls_status status = exchange_records(c, send, bytes, recv);
    lsi_free(block);
    return status;
}

/* Binds this rank's name, ahead of the first call of a meeting. */
static ls_status show_life(lsi_store_gather *gather)
{
    char name[LSI_STORE_GATHER_NAME];
    const size_t n = (size_t)gather->size;
    void *block = NULL;
    if (gather->life != NULL)
        return LS_OK;
    if (getrandom(&gather->owner, sizeof(gather->owner), 0) !=
        sizeof(gather->owner))
        return lsi_fail_errno(LS_ERR_SYSTEM,
                              "cannot get random numbers for the group's key");
    LS_TRY(lsi_alloc_zeroed(
        &block, sizeof(lsi_store_gather_life) + n * sizeof(name_of_life),
        LS_MEMORY_COMM, "liveness of the ranks"));
    gather->life = block;
    gather->life->place = lsi_own_place();
    name_life(gather->owner, name);
    gather->life->shown = lsi_show_name(name);
    return LS_OK;
}

void lsi_store_gather_end(lsi_store_gather *gather)
{
    if (gather->life == NULL)
        return;
    if (gather->life->shown >= 0)
        close(gather->life->shown);
    lsi_free(gather->life);
    gather->life = NULL;
}

ls_status lsi_store_gather_all(lsi_store_gather *gather, const void *send,
                               size_t bytes, void *recv, double seconds)
{
    const bool patient = gather->rank != 0 && seconds > 0;
    call c = {.gather = gather,
              .number = gather->calls++,
              .seconds = seconds,
              .bytes = sizeof(record) + bytes};
    if (c.bytes > LSI_STORE_VALUE_BYTES)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "the connection data of a rank take %zu bytes, but a "
                        "value of the rendezvous store can hold at most %d",
                        c.bytes, (int)LSI_STORE_VALUE_BYTES);
    LS_TRY(show_life(gather));
    c.deadline = lsi_deadline_in(patient ? seconds + GRACE_SECONDS : seconds);
    return exchange_with_room(&c, send, bytes, recv);
}
