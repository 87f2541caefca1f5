/*
 * How ranks of several nodes meet whom no MPI has started: at a store, whose
 * endpoint the launcher tells them. If they are all on one node, the store is
 * all they need; otherwise UCX carries what crosses, and they keep the store to
 * leave together.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/memory.h"
#include "comm/bootstrap/nodes.h"
#include "comm/bootstrap/store_gather.h"
#include "comm/bootstrap/transports.h"
#include "comm/net/ucx/load.h"
#include "lockstep/version.h"
#include "rendezvous/client.h"
#include "rendezvous/interface.h"
#include "rendezvous/secret.h"

static ls_store store; /* its context: NULL while there is none */
static lsi_store_gather gatherer;
static ls_status gathered; /* how the last one went that the wire asked for */
static const lsi_wire *wire;
static lsi_interface interface;
static char devices[LSI_UCX_DEVICES_BYTES];

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
        return lsi_fail(LS_ERR_ARGUMENT,
                        "LOCKSTEP_TRANSPORT is ucx, but LOCKSTEP_RENDEZVOUS "
                        "does not say where the ranks meet; `lockstep run "
                        "--nnodes` sets it");
    LS_TRY(lsi_secret_read(&secret));
    const ls_status status =
        lsi_store_connect(endpoint, secret, seconds, &store);
    lsi_free(secret);
    return status;
}

/* The name of a job may have blanks, and a key may not. */
static ls_status begin(const lsi_world *world, double seconds)
{
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

static ls_status gather(const void *send, size_t bytes, void *recv,
                        double seconds)
{
    return lsi_store_gather_all(&gatherer, send, bytes, recv, seconds, NULL);
}

static int gather_for_wire(const void *send, size_t bytes, void *recv,
                           double seconds, int (*idle)(void))
{
    gathered =
        lsi_store_gather_all(&gatherer, send, bytes, recv, seconds, idle);
    if (gathered == LS_OK)
        return 0;
    return gathered == LS_ERR_TIMEOUT ? LSI_WIRE_LATE : -1;
}

static void end(void)
{
    lsi_store_disconnect(&store);
}

/* ---- the wire ------------------------------------------------------------ */

static ls_status prepare(void)
{
    char reason[512];
    const char *told = variable("LOCKSTEP_INTERFACE");
    const ls_status status = lsi_ucx_load(&wire);
    if (status != LS_OK) {
        snprintf(reason, sizeof(reason), "%s", ls_last_error());
        return lsi_fail(status,
                        "these ranks are on several machines, which UCX joins, "
                        "but %s; install the package liblockstep%d.%d-ucx, or "
                        "build where libucx-dev is installed",
                        reason, LS_VERSION_MAJOR, LS_VERSION_MINOR);
    }
    LS_TRY(lsi_interface_choose(told, variable("LOCKSTEP_RENDEZVOUS"),
                                &interface));
    lsi_ucx_devices("/sys", interface.name, told != NULL, devices);
    return LS_OK;
}

static ls_status open_wire(const lsi_world *world, double seconds,
                           const lsi_wire **out)
{
    int rank, size;
    const lsi_wire_start start = {.rank = world->rank,
                                  .size = world->size,
                                  .seconds = seconds,
                                  .devices = devices,
                                  .gather = gather_for_wire};
    gathered = LS_OK;
    if (wire->open(&start, &rank, &size) != 0)
        return gathered != LS_OK /* which has said why */
                   ? gathered
                   : lsi_fail(LS_ERR_SYSTEM, "UCX over %s: %s", devices,
                              wire->error());
    lsi_log(LSI_LOG_INFO, "other machines are reached by %s over %s (%s, %s)",
            wire->library, devices, interface.why, interface.address);
    *out = wire;
    return LS_OK;
}

ls_status lsi_meet_by_ucx(const lsi_world *world, double seconds,
                          ls_group **out)
{
    static const lsi_reach reach = {.begin = begin,
                                    .gather = gather,
                                    .prepare = prepare,
                                    .open = open_wire,
                                    .end = end};
    return lsi_meet_on_nodes(&reach, world, seconds, out);
}
