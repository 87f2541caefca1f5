#include "comm/net/internode.h"

#include <assert.h>
#include <pthread.h>

#include "base/error.h"
#include "base/held.h"
#include "base/memory.h"
#include "comm/core/engine.h"
#include "comm/health/failure.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- the processes of the wire ------------------------------------------- */

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
    lsi_post_failure(group,
                     &(lsi_failure){.status = LS_ERR_PEER_DEAD,
                                    .rank_a = rank,
                                    .sequence = group->queue.completed + 1});
    return lsi_report_failure(group);
}

static ls_status took_off(ls_group *group, lsi_wire_request *request,
                          int result)
{
    if (result != 0)
        return lost(group, request->rank);
    request->pending = true;
    enlist(group->net, request);
    return LS_OK;
}

ls_status lsi_internode_garbled(ls_group *group, int rank)
{
    lsi_post_failure(group,
                     &(lsi_failure){.status = LS_ERR_FORMAT,
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

ls_status lsi_internode_send(ls_group *group, lsi_wire_request *request,
                             const void *data, size_t bytes, int rank, int tag)
{
    lsi_internode *net = group->net;
    *request = (lsi_wire_request){.rank = rank};
    pthread_mutex_lock(&lock);
    const int result =
        net->wire->send(data, bytes, net->peer[rank], net->world[group->rank],
                        tag_of(net, rank, tag), &request->ticket);
    pthread_mutex_unlock(&lock);
    return took_off(group, request, result);
}

/* From a rank, or from anybody if that is LSI_WIRE_ANYBODY. */
static ls_status receive(ls_group *group, lsi_wire_request *request,
                         lsi_buffer to, int rank, int tag)
{
    lsi_internode *net = group->net;
    const bool anybody = rank == LSI_WIRE_ANYBODY;
    const int peer = anybody ? LSI_WIRE_ANYBODY : net->peer[rank];
    const int from = anybody ? 0 : net->world[rank];
    pthread_mutex_lock(&lock);
    const int result =
        net->wire->receive(to.data, to.count, peer, from,
                           tag_of(net, group->rank, tag), &request->ticket);
    pthread_mutex_unlock(&lock);
    return took_off(group, request, result);
}

ls_status lsi_internode_receive(ls_group *group, lsi_wire_request *request,
                                void *data, size_t bytes, int rank, int tag)
{
    *request = (lsi_wire_request){.rank = rank, .receives = true};
    return receive(group, request, (lsi_buffer){data, bytes, LS_U8}, rank, tag);
}

ls_status lsi_internode_test(ls_group *group, lsi_wire_request *request)
{
    int64_t bytes = -1;
    if (!request->pending)
        return LS_OK;
    pthread_mutex_lock(&lock);
    const int result = group->net->wire->test(&request->ticket, &bytes);
    pthread_mutex_unlock(&lock);
    if (result == 0 && bytes < 0)
        return LS_IN_PROGRESS;
    strike(request);
    if (result != 0)
        return lost(group, request->rank);
    request->bytes = (size_t)bytes;
    group->activity++;
    return LS_OK;
}

bool lsi_internode_is_over(const lsi_internode *net, lsi_wire_request *request)
{
    int64_t bytes = -1;
    if (!request->pending)
        return true;
    pthread_mutex_lock(&lock);
    const int result = net->wire->test(&request->ticket, &bytes);
    pthread_mutex_unlock(&lock);
    if (result == 0 && bytes < 0)
        return false;
    strike(request);
    return true;
}

ls_status lsi_internode_receive_any(ls_group *group, lsi_wire_request *request,
                                    void *data, size_t bytes, int tag)
{
    *request = (lsi_wire_request){.receives = true};
    return receive(group, request, (lsi_buffer){data, bytes, LS_U8},
                   LSI_WIRE_ANYBODY, tag);
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

void lsi_wire_retire(const lsi_internode *net)
{
    if (net->wire->retire == NULL)
        return;
    pthread_mutex_lock(&lock);
    net->wire->retire(net->id[net->own] * LSI_TAGS, LSI_TAGS);
    pthread_mutex_unlock(&lock);
}

/* What the others still may get, although this rank does not wait for it. */
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

/* Receives first: one of them goes where a send comes from. */
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

/* The group of the node has failed, and so the whole one. */
static ls_status local_failed(ls_group *group)
{
    const lsi_internode *net = group->net;
    const ls_group *local = net->local;
    lsi_failure failure = {.status = LS_ERR_PEER_DEAD,
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
