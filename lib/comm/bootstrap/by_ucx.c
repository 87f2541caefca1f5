/*
 * Ranks of several nodes without MPI connect at a store, whose endpoint the
 * launcher sets. If all ranks are on one node, they need only the store.
 * Otherwise UCX carries the messages between nodes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "comm/bootstrap/nodes.h"
#include "comm/bootstrap/open_ucx.h"
#include "comm/bootstrap/store_gather.h"
#include "comm/bootstrap/transports.h"
#include "comm/rendezvous/client.h"
#include "comm/rendezvous/secret.h"

static ls_store store; /* its context is NULL until it is connected */
static lsi_store_gather gatherer;

static const char *variable(const char *name)
{
    const char *text = getenv(name);
    return text != NULL && *text != '\0' ? text : NULL;
}

/* ---- the store ----------------------------------------------------------- */

static ls_status connect_to_store(double seconds)
{
    const char *endpoint = variable("LOCKSTEP_RENDEZVOUS");
    char *secret = NULL;
    if (endpoint == NULL)
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "LOCKSTEP_TRANSPORT is ucx, but LOCKSTEP_RENDEZVOUS (the endpoint "
            "where ranks connect) is not set. Start the ranks with `lockstep "
            "run --nnodes`; this command sets LOCKSTEP_RENDEZVOUS");
    LS_TRY(lsi_secret_read(&secret));
    const ls_status status =
        lsi_store_connect(endpoint, secret, seconds, &store);
    lsi_free(secret);
    return status;
}

/* A hash, as the name of a job may have blanks, and a key may not. */
static ls_status begin(void *context, const lsi_world *world, double seconds)
{
    (void)context;
    const char *job = world->job == NULL ? "" : world->job;
    if (store.context != NULL)
        return LS_OK;
    LS_TRY(connect_to_store(seconds));
    gatherer = (lsi_store_gather){
        .store = &store, .rank = world->rank, .size = world->size};
    snprintf(gatherer.job, sizeof(gatherer.job), "ranks-%016llx",
             (unsigned long long)lsi_hash(LSI_HASH_START, job, strlen(job)));
    return LS_OK;
}

static ls_status gather(void *context, const void *send, size_t bytes,
                        void *recv, double seconds)
{
    (void)context;
    return lsi_store_gather_all(&gatherer, send, bytes, recv, seconds);
}

static ls_status prepare(void *context, const lsi_world *world,
                         const char *address, double seconds,
                         lsi_opened_wire *out)
{
    (void)context, (void)address;
    return lsi_open_ucx(world, variable("LOCKSTEP_RENDEZVOUS"), seconds, out);
}

static void end(void *context)
{
    (void)context;
    lsi_store_disconnect(&store);
}

static bool has_died(void *context, int rank)
{
    (void)context;
    return lsi_store_gather_has_died(&gatherer, rank);
}

ls_status lsi_meet_by_ucx(const lsi_world *world, double seconds,
                          ls_group **out)
{
    static lsi_world alone;
    static const lsi_reach reach = {.begin = begin,
                                    .gather = gather,
                                    .prepare = prepare,
                                    .end = end,
                                    .has_died = has_died,
                                    .alone = &alone,
                                    .minds_signals = true};
    const ls_status status = lsi_meet_on_nodes(&reach, world, seconds, out);
    lsi_store_gather_end(&gatherer);
    return status;
}
