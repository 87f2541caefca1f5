/*
 * ls_group_open: ranks that have agreed on a name, or have a store in common,
 * and need no launcher's variables.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/structs.h"
#include "comm/api/group.h"
#include "comm/bootstrap/open.h"
#include "comm/bootstrap/store_gather.h"
#include "comm/bootstrap/transports.h"
#include "comm/state/segment.h"
#include "fold/fold.h"
#include "observe/crash.h"

enum { NAME_BYTES = 128 };

/* A group that is to be opened, with a store. */
typedef struct opening {
    const ls_store *theirs; /* the caller's */
    ls_store store;         /* calls it, and records messages of errors */
    lsi_store_gather gatherer;
} opening;

/* ---- the caller's store -------------------------------------------------- */

/* Records an error's message, as a caller's function does not. */
static ls_status blame_store(ls_status status, const char *what,
                             const char *key)
{
    if (status == LS_OK)
        return LS_OK;
    if (status == LS_IN_PROGRESS ||
        strcmp(ls_status_name(status), "LS_UNKNOWN") == 0)
        return lsi_fail(
            LS_ERR_SYSTEM,
            "the store's %s function, called for key '%s', returned %d; it "
            "must return LS_OK or an LS_ERR_ status",
            what, key, (int)status);
    return lsi_fail(status, "the store's %s function failed for key '%s': %s",
                    what, key, ls_status_text(status));
}

static ls_status set_value(void *context, const char *key, const void *data,
                           size_t bytes)
{
    const ls_store *store = ((const opening *)context)->theirs;
    return blame_store(store->set(store->context, key, data, bytes), "set",
                       key);
}

static ls_status get_value(void *context, const char *key, void *data,
                           size_t *bytes, double seconds)
{
    const ls_store *store = ((const opening *)context)->theirs;
    const size_t room = *bytes;
    const ls_status status =
        store->get(store->context, key, data, bytes, seconds);
    if (status == LS_OK && *bytes > room)
        return lsi_fail(LS_ERR_FORMAT,
                        "the store's get function, called for key '%s', "
                        "returned %zu bytes, but the buffer has room for %zu",
                        key, *bytes, room);
    return blame_store(status, "get", key);
}

/* ---- connecting by the store --------------------------------------------- */

static ls_status gather(void *context, const void *send, size_t bytes,
                        void *recv, double seconds)
{
    opening *o = context;
    return lsi_store_gather_all(&o->gatherer, send, bytes, recv, seconds);
}

static bool has_died(void *context, int rank)
{
    const opening *o = context;
    return lsi_store_gather_has_died(&o->gatherer, rank);
}

/* Keys are short, and the same wherever a rank is. */
static ls_status meet_by_store(const char *name, const ls_store *store,
                               const lsi_world *world, double seconds,
                               ls_group **out)
{
    opening o = {.theirs = store,
                 .store = {.context = &o, .set = set_value, .get = get_value},
                 .gatherer = {.store = &o.store,
                              .rank = world->rank,
                              .size = world->size}};
    const lsi_reach reach = {.context = &o,
                             .gather = gather,
                             .prepare = lsi_open_prepare,
                             .has_died = has_died};
    snprintf(o.gatherer.job, sizeof(o.gatherer.job), "lockstep-%016llx",
             (unsigned long long)lsi_hash(LSI_HASH_START, name, strlen(name)));
    const ls_status status = lsi_meet_on_nodes(&reach, world, seconds, out);
    lsi_store_gather_end(&o.gatherer);
    return status;
}

/* ---- meeting ------------------------------------------------------------- */

static ls_status check(const char *name, int rank, int size,
                       const ls_store *store)
{
    const size_t length = strlen(name);
    if (length == 0 || length > NAME_BYTES)
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "ls_group_open: the name has %zu bytes; it must have 1 to %d",
            length, NAME_BYTES);
    if (size < 1 || size > LSI_MAX_RANKS)
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "ls_group_open: size is %d; a group can have 1 to %d ranks", size,
            LSI_MAX_RANKS);
    if (rank < 0 || rank >= size)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "ls_group_open: rank %d is not in the group, which has "
                        "ranks 0 to %d",
                        rank, size - 1);
    if (store != NULL && (store->set == NULL || store->get == NULL))
        return lsi_fail(LS_ERR_ARGUMENT, "ls_group_open: set or get is NULL in "
                                         "the ls_store; both are required");
    return LS_OK;
}

static ls_status meet(const char *name, int rank, int size,
                      const ls_store *store, double seconds, ls_group **out)
{
    char named_by[NAME_BYTES + 32];
    lsi_world world = {.rank = rank,
                       .size = size,
                       .local_rank = rank,
                       .local_size = size,
                       .named_by = named_by};
    if (size == 1)
        return ls_group_open_threads(out, 1);
    snprintf(named_by, sizeof(named_by), "group name '%s'", name);
    lsi_world_set_name(&world, name);
    return store == NULL ? lsi_rendezvous(&world, seconds, out)
                         : meet_by_store(name, store, &world, seconds, out);
}

/*
 * Adds the group's name, as messages of errors number ranks within the group.
 */
static ls_status name_group(const char *name, ls_status status)
{
    return lsi_fail(status, "group '%s': %s", name, ls_last_error());
}

ls_status ls_group_open(ls_group **group, const char *name, int rank, int size,
                        const ls_store *store, double seconds)
{
    LS_NEED(group, name);
    lsi_watch_crashes();
    LS_TRY(lsi_fold_check());
    ls_store own;
    if (store != NULL) {
        LS_TRY(LSI_STRUCT_READ(&own, store, ls_store, get));
        store = &own;
    }
    LS_TRY(check(name, rank, size, store));
    /* Checked before other ranks wait for this one. */
    LS_TRY(lsi_timeout_of("ls_group_open", &seconds));
    ls_group *made = NULL;
    const ls_status status = meet(name, rank, size, store, seconds, &made);
    if (status != LS_OK)
        return name_group(name, status);
    return lsi_open_finish(made, seconds, group);
}
