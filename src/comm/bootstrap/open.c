/*
 * ls_group_open: ranks that have agreed on a name, or have a store in common,
 * and need no launcher's variables.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crash.h"
#include "base/error.h"
#include "comm/api/group.h"
#include "comm/bootstrap/nodes.h"
#include "comm/bootstrap/transports.h"
#include "comm/state/segment.h"
#include "compute/compute.h"

enum { KEY_BYTES = 80, NAME_BYTES = 128, TOKEN_BYTES = 33 };

/* Rank 0 gives up first, so that its reason reaches the others. */
#define GRACE_SECONDS 1.0

/* What a rank leaves in the store, and rank 0's answer to all. */
typedef struct arrival {
    uint64_t place;
    int32_t size;
    char host[LSI_HOST_BYTES];
} arrival;

typedef struct answer {
    int32_t status;
    char token[TOKEN_BYTES]; /* names the meeting point */
    char text[400];          /* why, if status is an error */
} answer;

/* A group that is to be opened. */
typedef struct opening {
    const char *name;
    lsi_world world; /* with a name made of that, for keys */
    int rank, size;
    const ls_store *store;
    double until; /* by the clock; 0: for ever */
} opening;

/* 0 is for ever. */
static double seconds_left(const opening *o)
{
    const double grace = o->rank == 0 ? 0 : GRACE_SECONDS;
    const double left = o->until + grace - lsi_clock_seconds();
    if (o->until == 0)
        return 0;
    return left > 1e-3 ? left : 1e-3;
}

/* ---- by way of the store ------------------------------------------------- */

static void key_of(const opening *o, int rank, char key[KEY_BYTES])
{
    snprintf(key, KEY_BYTES, "%s/%d", o->world.name, rank);
}

static ls_status put(const opening *o, const char *key, const void *data,
                     size_t bytes)
{
    return o->store->set(o->store->context, key, data, bytes);
}

/* Of exactly so many bytes. */
static ls_status take(const opening *o, const char *key, void *data,
                      size_t bytes)
{
    size_t got = bytes;
    LS_TRY(o->store->get(o->store->context, key, data, &got, seconds_left(o)));
    if (got == bytes)
        return LS_OK;
    return lsi_fail(
        LS_ERR_FORMAT,
        "the store has %zu bytes as \"%s\" where %zu are expected: "
        "are all ranks linked with the same version of the library?",
        got, key, bytes);
}

static ls_status check_arrival(const opening *o, const arrival *own,
                               const arrival *theirs, int rank)
{
    if (theirs->size != o->size)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "group \"%s\": rank %d believes in %d ranks, rank 0 in "
                        "%d",
                        o->name, rank, (int)theirs->size, o->size);
    if (theirs->place != own->place)
        return lsi_fail(
            LS_ERR_UNSUPPORTED,
            "group \"%s\": rank %d (host %.*s) cannot share memory with rank 0 "
            "(host %s); a group that is opened by its name has all ranks on "
            "one machine, under one user and in one container",
            o->name, rank, (int)sizeof(theirs->host), theirs->host, own->host);
    return LS_OK;
}

static ls_status await_arrivals(const opening *o, const arrival *own)
{
    char key[KEY_BYTES];
    for (int r = 1; r < o->size; r++) {
        arrival theirs;
        key_of(o, r, key);
        const ls_status status = take(o, key, &theirs, sizeof(theirs));
        if (status == LS_ERR_TIMEOUT)
            return lsi_fail(status,
                            "group \"%s\": rank %d of %d has not come in time",
                            o->name, r, o->size);
        LS_TRY(status);
        LS_TRY(check_arrival(o, own, &theirs, r));
    }
    return LS_OK;
}

/* A name that no other group has had: what is left of those disturbs nobody. */
static ls_status make_token(char token[TOKEN_BYTES])
{
    uint64_t random[2];
    if (getrandom(random, sizeof(random), 0) != sizeof(random))
        return lsi_fail_errno(LS_ERR_SYSTEM, "there are no random numbers");
    snprintf(token, TOKEN_BYTES, "%016llx%016llx",
             (unsigned long long)random[0], (unsigned long long)random[1]);
    return LS_OK;
}

static ls_status lead(const opening *o, const arrival *own,
                      char token[TOKEN_BYTES])
{
    char key[KEY_BYTES];
    answer said = {.status = LS_OK};
    ls_status status = await_arrivals(o, own);
    if (status == LS_OK)
        status = make_token(token);
    said.status = status;
    if (status == LS_OK)
        memcpy(said.token, token, TOKEN_BYTES);
    else
        snprintf(said.text, sizeof(said.text), "%.*s",
                 (int)sizeof(said.text) - 1, ls_last_error());
    key_of(o, 0, key);
    const ls_status told = put(o, key, &said, sizeof(said));
    return status != LS_OK ? lsi_fail(status, "%s", said.text) : told;
}

static ls_status follow(const opening *o, const arrival *own,
                        char token[TOKEN_BYTES])
{
    char key[KEY_BYTES];
    answer heard;
    key_of(o, o->rank, key);
    LS_TRY(put(o, key, own, sizeof(*own)));
    key_of(o, 0, key);
    const ls_status status = take(o, key, &heard, sizeof(heard));
    if (status == LS_ERR_TIMEOUT)
        return lsi_fail(status,
                        "group \"%s\": rank 0 of %d has not come in time, or "
                        "waits for another; this is rank %d",
                        o->name, o->size, o->rank);
    LS_TRY(status);
    if (heard.status != LS_OK)
        return lsi_fail(lsi_error_of_peer(heard.status), "%.*s",
                        (int)sizeof(heard.text), heard.text);
    memcpy(token, heard.token, TOKEN_BYTES);
    token[TOKEN_BYTES - 1] = '\0';
    return LS_OK;
}

static ls_status agree_on_token(const opening *o, char token[TOKEN_BYTES])
{
    arrival own = {.place = lsi_own_place(), .size = o->size};
    if (gethostname(own.host, sizeof(own.host) - 1) != 0)
        strcpy(own.host, "unknown");
    return o->rank == 0 ? lead(o, &own, token) : follow(o, &own, token);
}

/* ---- meeting ------------------------------------------------------------- */

static ls_status check(const char *name, int rank, int size,
                       const ls_store *store)
{
    const size_t length = strlen(name);
    if (length == 0 || length > NAME_BYTES)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "ls_group_open: a name of %zu bytes; 1 to %d are "
                        "possible",
                        length, NAME_BYTES);
    if (size < 1 || size > LSI_MAX_RANKS)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "ls_group_open: a group of %d ranks; 1 to %d are "
                        "possible",
                        size, LSI_MAX_RANKS);
    if (rank < 0 || rank >= size)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "ls_group_open: there is no rank %d in a group of %d",
                        rank, size);
    if (store != NULL && (store->set == NULL || store->get == NULL))
        return lsi_fail(LS_ERR_ARGUMENT,
                        "ls_group_open: the store's set or get is NULL");
    return LS_OK;
}

static ls_status meet(opening *o, ls_group **out)
{
    char token[TOKEN_BYTES], named_by[NAME_BYTES + 32];
    if (o->size == 1)
        return ls_group_open_threads(out, 1);
    snprintf(named_by, sizeof(named_by), "the group's name, \"%s\"", o->name);
    o->world = (lsi_world){.rank = o->rank,
                           .size = o->size,
                           .local_rank = o->rank,
                           .local_size = o->size,
                           .named_by = named_by};
    lsi_world_set_name(&o->world, o->name);
    if (o->store != NULL) {
        LS_TRY(agree_on_token(o, token));
        lsi_world_set_name(&o->world, token);
    }
    /* Which adds what grace there is itself. */
    double left = seconds_left(o);
    if (o->rank != 0 && left > GRACE_SECONDS)
        left -= GRACE_SECONDS;
    return lsi_rendezvous(&o->world, left, out);
}

ls_status ls_group_open(ls_group **group, const char *name, int rank, int size,
                        const ls_store *store, double seconds)
{
    LS_NEED(group);
    LS_NEED(name);
    lsi_watch_crashes();
    LS_TRY(lsi_compute_check());
    LS_TRY(check(name, rank, size, store));
    if (seconds < 0)
        LS_TRY(lsi_default_timeout(&seconds));
    opening o = {.name = name,
                 .rank = rank,
                 .size = size,
                 .store = store,
                 .until = seconds == 0 ? 0 : lsi_clock_seconds() + seconds};
    ls_group *made = NULL;
    LS_TRY(meet(&o, &made));
    ls_status status = ls_group_set_timeout(made, seconds);
    if (status == LS_OK)
        status = lsi_group_settle(made);
    if (status != LS_OK)
        ls_group_close(&made);
    else
        *group = made;
    return status;
}
