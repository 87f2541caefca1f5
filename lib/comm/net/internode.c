#include "comm/net/internode.h"

#include <assert.h>
#include <pthread.h>

#include "base/error.h"
#include "base/held.h"
#include "base/memory.h"
#include "base/module.h"
#include "comm/core/engine.h"
#include "comm/health/failure.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- the processes of the wire ------------------------------------------- */

ls_status lsi_wire_load(const char *name, const lsi_wire **out)
{
    /* Libraries load further parts, which look for the libraries' symbols. */
    static const lsi_module_kind wires = {LSI_WIRE_SYMBOL, LSI_WIRE_VERSION,
                                          true};
    const void *table = NULL;
    LS_TRY(lsi_module_load(name, &wires, &table));
    *out = table;
    return LS_OK;
}

void lsi_wire_lock(void)
{
    pthread_mutex_lock(&lock);
}

void lsi_wire_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

void lsi_peers_hold(const lsi_wire *wire, const int *peer, int size)
{
    if (wire->hold == NULL)
        return;
    pthread_mutex_lock(&lock);
    wire->hold(peer, size);
    pthread_mutex_unlock(&lock);
}

void lsi_peers_let_go(const lsi_wire *wire, const int *peer, int size)
{
    if (wire->let_go == NULL)
        return;
    pthread_mutex_lock(&lock);
    wire->let_go(peer, size);
    pthread_mutex_unlock(&lock);
}

/* ---- messages ------------------------------------------------------------ */

static void enlist(lsi_internode *net, lsi_wire_request *request)
{
    assert(request->pending && request->link == NULL);
    request->next = net->pending;
    request->link = &net->pending;
    if (request->next != NULL)
        request->next->link = &request->next;
    net->pending = request;
}

static void strike(lsi_wire_request *request)
{
    assert(request->pending && *request->link == request);
    *request->link = request->next;
    if (request->next != NULL)
        request->next->link = request->link;
    request->pending = false;
}

/* The wire knows why; for the group it means that a rank is out of reach. */
static ls_status lost(ls_group *group, int rank)
{
    lsi_post_failure(
        group, &(lsi_failure_record){.status = LS_ERR_PEER_DEAD,
                                     .rank_a = rank,
                                     .sequence = group->queue.completed + 1});
    return lsi_report_failure(group);
}

ls_status lsi_internode_garbled(ls_group *group, int rank)
{
    lsi_post_failure(
        group, &(lsi_failure_record){.status = LS_ERR_FORMAT,
                                     .rank_a = rank,
                                     .rank_b = group->rank,
                                     .sequence = group->queue.completed + 1});
    return lsi_report_failure(group);
}

/* The tag of a message to a rank. */
static int tag_of(const lsi_internode *net, int rank, int about)
{
    assert(about >= 0 && about < LSI_TAGS);
    return net->id[rank] * LSI_TAGS + about;
}

bool lsi_internode_try_send(lsi_internode *net, lsi_wire_request *request,
                            const void *data, size_t bytes, int rank, int tag)
{
    *request = (lsi_wire_request){.rank = rank};
    pthread_mutex_lock(&lock);
    request->pending =
        net->wire->send(data, bytes, net->peer[rank], net->world[net->own],
                        tag_of(net, rank, tag), &request->ticket) == 0;
    pthread_mutex_unlock(&lock);
    if (request->pending)
        enlist(net, request);
    return request->pending;
}

ls_status lsi_internode_send(ls_group *group, lsi_wire_request *request,
                             const void *data, size_t bytes, int rank, int tag)
{
    return lsi_internode_try_send(group->net, request, data, bytes, rank, tag)
               ? LS_OK
               : lost(group, rank);
}

ls_status lsi_internode_receive(ls_group *group, lsi_wire_request *request,
                                void *data, size_t bytes, int rank, int tag)
{
    lsi_internode *net = group->net;
    const bool anybody = rank == LSI_WIRE_ANYBODY;
    const int peer = anybody ? LSI_WIRE_ANYBODY : net->peer[rank];
    const int from = anybody ? 0 : net->world[rank];
    *request = (lsi_wire_request){.rank = anybody ? 0 : rank, .receives = true};
    pthread_mutex_lock(&lock);
    request->pending = net->wire->receive(data, bytes, peer, from,
                                          tag_of(net, group->rank, tag),
                                          &request->ticket) == 0;
    pthread_mutex_unlock(&lock);
    if (!request->pending)
        return lost(group, request->rank);
    enlist(net, request);
    return LS_OK;
}

/* Whether a pending message is over; then *result is what the wire says. */
static bool is_over(const lsi_internode *net, lsi_wire_request *request,
                    int *result)
{
    int64_t bytes = -1;
    pthread_mutex_lock(&lock);
    *result = net->wire->test(&request->ticket, &bytes);
    pthread_mutex_unlock(&lock);
    if (*result == 0 && bytes < 0)
        return false;
    strike(request);
    if (*result == 0)
        request->bytes = (size_t)bytes;
    return true;
}

ls_status lsi_internode_test(ls_group *group, lsi_wire_request *request)
{
    int result;
    if (!request->pending)
        return LS_OK;
    if (!is_over(group->net, request, &result))
        return LS_IN_PROGRESS;
    if (result != 0)
        return lost(group, request->rank);
    group->activity++;
    return LS_OK;
}

bool lsi_internode_is_over(const lsi_internode *net, lsi_wire_request *request)
{
    int result;
    return !request->pending || is_over(net, request, &result);
}

void lsi_wire_retire(const lsi_internode *net)
{
    if (net->wire->retire == NULL)
        return;
    pthread_mutex_lock(&lock);
    net->wire->retire(net->id[net->own] * LSI_TAGS, LSI_TAGS);
    pthread_mutex_unlock(&lock);
}

/* Stops waiting for a send, which the receiver may still get. */
static void drop(lsi_internode *net, lsi_wire_request *request)
{
    void *owned = NULL;
    assert(lsi_mutex_held(&lock) && !request->receives);
    if (request == &net->arrivals.out) {
        owned = net->arrivals.bundle;
        net->arrivals.bundle = NULL;
    }
    net->wire->drop(&request->ticket, owned, lsi_free);
}

/* Receives first: one of them writes to memory that a send reads. */
void lsi_internode_cancel_all(lsi_internode *net)
{
    for (int sends = 0; sends < 2; sends++)
        for (lsi_wire_request *r = net->pending, *next; r != NULL; r = next) {
            next = r->next;
            if (r->receives == (sends != 0))
                continue;
            strike(r);
            pthread_mutex_lock(&lock);
            if (r->receives)
                net->wire->cancel(&r->ticket);
            else if (net->wire->drop != NULL)
                drop(net, r);
            pthread_mutex_unlock(&lock);
        }
}

/* ---- for algorithms ------------------------------------------------------ */

/* The node's group has failed, and so has the whole group. */
static ls_status local_failed(ls_group *group)
{
    const lsi_internode *net = group->net;
    const ls_group *local = net->local;
    lsi_failure_record failure = {.status = LS_ERR_PEER_DEAD,
                                  .sequence = group->queue.completed + 1};
    if (lsi_has_failed(local))
        failure = *lsi_failure_of(local);
    failure.rank_a = net->rank[net->first[net->node] + failure.rank_a];
    failure.rank_b = net->rank[net->first[net->node] + failure.rank_b];
    failure.sequence = group->queue.completed + 1;
    lsi_post_failure(group, &failure);
    return lsi_report_failure(group);
}

ls_status lsi_internode_advance(lsi_collective *op,
                                ls_status (*move_on)(lsi_collective *op))
{
    ls_group *group = op->group, *local = group->net->local;
    const uint64_t before = local->activity;
    ls_status status = lsi_progress(local);
    if (status == LS_OK)
        status = move_on(op);
    group->activity += local->activity - before;
    if (status == LS_OK || status == LS_IN_PROGRESS || lsi_has_failed(group))
        return status;
    return local_failed(group);
}
