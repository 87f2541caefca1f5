#include "comm/internode.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/suspending_clock.h"
#include "comm/arrivals.h"
#include "comm/collective.h"
#include "comm/dump.h"
#include "comm/engine.h"
#include "comm/failure.h"
#include "comm/open.h"
#include "comm/schedule/nodes.h"
#include "comm/sigterm.h"

/* How long a group that closes, or fails, waits until its words are out. */
#define SIGTERM_NS    ((uint64_t)1000 * 1000 * 1000)
#define LAST_WORDS_NS ((uint64_t)200 * 1000 * 1000)

/* Groups may be used by several threads, and the wire by one at a time. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- messages ------------------------------------------------------------ */

static void enlist(lsi_internode *net, lsi_wire_request *request)
{
    request->next = net->pending;
    request->link = &net->pending;
    if (request->next != NULL)
        request->next->link = &request->next;
    net->pending = request;
}

static void strike(lsi_wire_request *request)
{
    *request->link = request->next;
    if (request->next != NULL)
        request->next->link = request->link;
    request->pending = false;
}

/* The wire says why, but what has happened is that a rank is out of reach. */
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

/* Of a message to a rank. */
static int tag_of(const lsi_internode *net, int rank, int about)
{
    return net->id[rank] * LSI_TAGS + about;
}

ls_status lsi_internode_send(ls_group *group, lsi_wire_request *request,
                             const void *data, size_t bytes, int rank, int tag)
{
    lsi_internode *net = group->net;
    *request = (lsi_wire_request){.rank = rank};
    pthread_mutex_lock(&lock);
    const int result =
        net->wire->send(data, bytes, net->world[rank], tag_of(net, rank, tag),
                        &request->ticket);
    pthread_mutex_unlock(&lock);
    return took_off(group, request, result);
}

static ls_status receive(ls_group *group, lsi_wire_request *request,
                         lsi_buffer to, int peer, int tag)
{
    lsi_internode *net = group->net;
    pthread_mutex_lock(&lock);
    const int result =
        net->wire->receive(to.data, to.count, peer,
                           tag_of(net, group->rank, tag), &request->ticket);
    pthread_mutex_unlock(&lock);
    return took_off(group, request, result);
}

ls_status lsi_internode_receive(ls_group *group, lsi_wire_request *request,
                                void *data, size_t bytes, int rank, int tag)
{
    *request = (lsi_wire_request){.rank = rank, .receives = true};
    return receive(group, request, (lsi_buffer){data, bytes, LS_U8},
                   group->net->world[rank], tag);
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

/* Whether a message is done with, be it that the wire has dropped it. */
static bool is_over(const lsi_internode *net, lsi_wire_request *request)
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

/* ---- out of turn --------------------------------------------------------- */

static ls_status listen(ls_group *group)
{
    lsi_internode *net = group->net;
    const lsi_buffer to = {&net->received, sizeof(net->received), LS_U8};
    net->receive_control = (lsi_wire_request){.receives = true};
    return receive(group, &net->receive_control, to, LSI_WIRE_ANYBODY,
                   LSI_TAG_CONTROL);
}

/* Whether nothing is left to be said to a rank. It may be slow to listen. */
static bool say_next(lsi_internode *net, int rank)
{
    lsi_control_slot *control = &net->control[rank];
    lsi_wire_request *request = &control->request;
    if (!control->has_next)
        return true;
    if (!is_over(net, request))
        return false;
    control->has_next = false;
    control->message = control->next;
    *request = (lsi_wire_request){.rank = rank};
    pthread_mutex_lock(&lock);
    request->pending =
        net->wire->send(&control->message, sizeof(control->message),
                        net->world[rank], tag_of(net, rank, LSI_TAG_CONTROL),
                        &request->ticket) == 0;
    pthread_mutex_unlock(&lock);
    if (request->pending)
        enlist(net, request);
    return true;
}

static void say(ls_group *group, const lsi_control *message, int rank)
{
    lsi_control_slot *control = &group->net->control[rank];
    if (!control->has_next || message->about >= control->next.about)
        control->next = *message;
    control->has_next = true;
    if (!say_next(group->net, rank))
        group->net->control_waits = true;
}

static void say_rest(ls_group *group)
{
    lsi_internode *net = group->net;
    bool all = true;
    for (int r = 0; net->control_waits && r < group->size; r++)
        all = say_next(net, r) && all;
    net->control_waits = !all;
}

void lsi_internode_tell(ls_group *group, const lsi_failure *failure)
{
    const lsi_control message = {
        .rank = group->rank, .about = LSI_CONTROL_FAILED, .failure = *failure};
    for (int r = 0; r < group->size; r++)
        if (lsi_on_other_node(group, r))
            say(group, &message, r);
}

/* One rank of each other node hears it, for all of them. */
static void say_to_nodes(ls_group *group, const lsi_control *message)
{
    const lsi_internode *net = group->net;
    const int index = net->index_of[group->rank];
    for (int k = 0; k < net->nodes; k++)
        if (k != net->node)
            say(group, message,
                net->rank[net->first[k] + index % net->ranks_on[k]]);
}

static void take_leave(ls_group *group)
{
    const lsi_control message = {.rank = group->rank,
                                 .about = LSI_CONTROL_LEAVES};
    say_to_nodes(group, &message);
}

void lsi_internode_tell_awaits(ls_group *group)
{
    const lsi_control message = {
        .rank = group->rank,
        .about = LSI_CONTROL_AWAITS,
        .awaits = atomic_load(&lsi_member_of(group, group->rank)->awaits)};
    say_to_nodes(group, &message);
}

static void take_control(ls_group *group, const lsi_control *message)
{
    if (message->rank < 0 || message->rank >= group->size)
        return;
    if (message->about == LSI_CONTROL_LEAVES)
        atomic_store(&lsi_member_of(group, message->rank)->presence, LSI_LEFT);
    else if (message->about == LSI_CONTROL_AWAITS)
        atomic_store(&lsi_member_of(group, message->rank)->awaits,
                     message->awaits);
    else
        lsi_hear_failure(group, &message->failure);
}

ls_status lsi_internode_progress(ls_group *group)
{
    lsi_internode *net = group->net;
    const uint64_t activity = group->activity;
    say_rest(group);
    const ls_status received = lsi_internode_test(group, &net->receive_control);
    if (received == LS_OK) {
        if (net->received.about == LSI_CONTROL_AWAITS)
            group->activity = activity; /* nothing has moved */
        take_control(group, &net->received);
        LS_TRY(listen(group));
    } else if (received != LS_IN_PROGRESS) {
        return received;
    }
    return lsi_arrivals_progress(group);
}

/* After a failure only words matter, and the dead do not take data. */
static bool is_awaited(const ls_group *group, const lsi_wire_request *request)
{
    const bool is_word = request == &group->net->control[request->rank].request;
    return !request->receives && (is_word || !lsi_has_failed(group));
}

/* Tests what is being sent until all of it is out, or time is up. */
static void let_go(ls_group *group)
{
    lsi_internode *net = group->net;
    const uint64_t until = lsi_suspending_clock_ns() +
                           (lsi_has_failed(group) ? LAST_WORDS_NS : SIGTERM_NS);
    bool waits = true;
    while (waits && lsi_suspending_clock_ns() < until) {
        say_rest(group);
        waits = net->control_waits;
        for (lsi_wire_request *f = net->pending, *next; f != NULL; f = next) {
            next = f->next;
            if (is_awaited(group, f) && !is_over(net, f))
                waits = true;
        }
    }
}

static void cancel_all(lsi_internode *net)
{
    while (net->pending != NULL) {
        lsi_wire_request *request = net->pending;
        strike(request);
        if (!request->receives)
            continue; /* its bytes are as good as gone */
        pthread_mutex_lock(&lock);
        net->wire->cancel(&request->ticket);
        pthread_mutex_unlock(&lock);
    }
    net->control_waits = false;
}

void lsi_internode_abandon(ls_group *group)
{
    let_go(group);
    cancel_all(group->net);
}

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

/* ---- opening ------------------------------------------------------------- */

static _Atomic int next_id; /* of this process */

int lsi_internode_new_id(void)
{
    return atomic_fetch_add(&next_id, 1);
}

/* Numbers the nodes in the order of their first ranks. */
static void find_nodes(lsi_internode *net, const lsi_internode_plan *plan)
{
    for (int r = 0; r < plan->size; r++) {
        int first = 0;
        while (plan->place[first] != plan->place[r])
            first++;
        net->world[r] = plan->world[r];
        net->id[r] = plan->id[r];
        net->node_of[r] = first == r ? net->nodes++ : net->node_of[first];
        net->index_of[r] = net->ranks_on[net->node_of[r]]++;
    }
    for (int k = 1; k < net->nodes; k++)
        net->first[k] = net->first[k - 1] + net->ranks_on[k - 1];
    for (int r = 0; r < plan->size; r++)
        net->rank[net->first[net->node_of[r]] + net->index_of[r]] = r;
    net->node = net->node_of[plan->rank];
    net->rails = lsi_rails_between(net->ranks_on, net->nodes);
}

static ls_status allocate(lsi_internode *net, const lsi_internode_plan *plan)
{
    enum { MAPS = 7 };
    const size_t n = (size_t)plan->size;
    void *block = NULL;
    LS_TRY(lsi_alloc_zeroed(&block, MAPS * n * sizeof(int), LS_MEMORY_COMM,
                            "a group of several nodes"));
    int **const maps[MAPS] = {&net->world,    &net->id,       &net->node_of,
                              &net->index_of, &net->ranks_on, &net->first,
                              &net->rank};
    for (size_t i = 0; i < MAPS; i++)
        *maps[i] = (int *)block + i * n;
    LS_TRY(lsi_alloc_zeroed(&block, n * sizeof(lsi_control_slot),
                            LS_MEMORY_COMM, "a group of several nodes"));
    net->control = block;
    find_nodes(net, plan);
    return plan->local->rank == 0 ? lsi_arrivals_open(&net->arrivals, n)
                                  : LS_OK;
}

static void release(lsi_internode *net)
{
    lsi_arrivals_close(&net->arrivals);
    lsi_free(net->control);
    lsi_free(net->world); /* and the maps behind it */
    ls_group_close(&net->local);
    lsi_free(net);
}

/* All ranks see the same numbers, and come to the same result. */
static ls_status check_tags(const lsi_internode_plan *plan)
{
    const int most = plan->wire->highest_tag / LSI_TAGS;
    for (int r = 0; r < plan->size; r++)
        if (plan->id[r] >= most)
            return lsi_fail(LS_ERR_UNSUPPORTED,
                            "rank %d has made %d groups that span nodes; %s "
                            "has tags for no more",
                            r, plan->id[r], plan->wire->library);
    return LS_OK;
}

static ls_status make(const lsi_internode_plan *plan, lsi_internode **out)
{
    void *block = NULL;
    ls_group *local = plan->local;
    ls_status status =
        lsi_alloc_zeroed(&block, sizeof(lsi_internode), LS_MEMORY_COMM,
                         "a group of several nodes");
    if (status != LS_OK) {
        ls_group_close(&local);
        return status;
    }
    lsi_internode *net = block;
    net->local = local;
    net->wire = plan->wire;
    net->job = plan->job;
    status = allocate(net, plan);
    if (status == LS_OK)
        status = check_tags(plan);
    if (status != LS_OK)
        release(net);
    else
        *out = net;
    return status;
}

ls_status lsi_internode_open(const lsi_internode_plan *plan, ls_group **out)
{
    lsi_internode *net = NULL;
    ls_group *group = NULL;
    const ls_group *local = plan->local;
    const int own = lsi_member_of(local, local->rank)->node_rank;
    lsi_node_memory *node = local->memory.node;
    LS_TRY(make(plan, &net));
    const lsi_membership membership = {.rank = plan->rank,
                                       .size = plan->size,
                                       .sharers = local->size,
                                       .node_rank = own,
                                       .offset = plan->offset,
                                       .spans = true};
    ls_status status =
        lsi_group_open(lsi_node_memory_share(node), membership, &group);
    if (status != LS_OK) {
        release(net);
        return status;
    }
    group->net = net;
    lsi_dump_leave(net->local); /* the records are those of the whole group */
    lsi_dump_join(group);
    net->local->counters = group->counters;
    status = listen(group);
    if (status != LS_OK)
        ls_group_close(&group);
    else
        *out = group;
    return status;
}

/* What ranks of other nodes cannot read in the memory of this one. */
typedef struct introduction {
    char host[LSI_HOST_BYTES];
    int32_t pid;
} introduction;

ls_status lsi_internode_introduce(ls_group *group)
{
    const lsi_call call = {.operation = LSI_OP_SPLIT};
    const lsi_member *self = lsi_member_of(group, group->rank);
    introduction own = {.pid = self->pid}, *all = NULL;
    void *block = NULL;
    memcpy(own.host, self->host, sizeof(own.host));
    LS_TRY(lsi_alloc(&block, (size_t)group->size * sizeof(own), LS_MEMORY_COMM,
                     "the names of ranks"));
    all = block;
    const ls_status status = lsi_exchange(group, &call, &own, sizeof(own), all);
    for (int r = 0; status == LS_OK && r < group->size; r++) {
        lsi_member *member = lsi_member_of(group, r);
        if (!lsi_on_other_node(group, r) || group->net->local->rank != 0)
            continue;
        memcpy(member->host, all[r].host, sizeof(member->host));
        member->pid = all[r].pid;
    }
    lsi_free(block);
    return status;
}

void lsi_internode_close(ls_group *group)
{
    lsi_internode *net = group->net;
    if (net == NULL)
        return;
    lsi_sigterm_forget(group);
    if (!group->failed && !lsi_has_failed(group))
        take_leave(group);
    lsi_internode_abandon(group);
    release(net);
    group->net = NULL;
}
