#include "comm/net/control.h"

#include <assert.h>

#include "base/error.h"
#include "base/suspending_clock.h"
#include "comm/health/failure.h"
#include "comm/state/channels.h"

/* How long a group that closes, or fails, waits for what it still sends. */
#define CLOSE_NS ((uint64_t)1000 * 1000 * 1000)
#define FAIL_NS  ((uint64_t)200 * 1000 * 1000)

/* ---- sending ------------------------------------------------------------- */

/* Whether no message is left to a rank, which may be slow to receive. */
static bool send_next(lsi_internode *net, int rank)
{
    lsi_control_slot *control = &net->control[rank];
    lsi_wire_request *request = &control->request;
    if (!control->has_next)
        return true;
    if (!lsi_internode_is_over(net, request))
        return false;
    control->has_next = false;
    control->current = control->next;
    (void)lsi_internode_try_send(net, request, &control->current,
                                 sizeof(control->current), rank,
                                 LSI_TAG_CONTROL);
    return true;
}

static void send_control(ls_group *group, const lsi_control *message, int rank)
{
    lsi_control_slot *control = &group->net->control[rank];
    assert(!lsi_shares_memory(group, rank));
    if (!control->has_next || message->about >= control->next.about)
        control->next = *message;
    control->has_next = true;
    if (!send_next(group->net, rank))
        group->net->control_waits = true;
}

static void send_pending(ls_group *group)
{
    lsi_internode *net = group->net;
    bool all = true;
    for (int r = 0; net->control_waits && r < group->size; r++)
        all = send_next(net, r) && all;
    net->control_waits = !all;
}

void lsi_control_announce_failure(ls_group *group,
                                  const lsi_failure_record *failure)
{
    const lsi_control message = {
        .rank = group->rank, .about = LSI_CONTROL_FAILED, .failure = *failure};
    for (int r = 0; r < group->size; r++)
        if (!lsi_shares_memory(group, r))
            send_control(group, &message, r);
}

/* To one rank of each other node, for all of its ranks. */
static void send_to_nodes(ls_group *group, const lsi_control *message)
{
    const lsi_internode *net = group->net;
    const int index = net->index_of[group->rank];
    for (int k = 0; k < net->nodes; k++)
        if (k != net->node)
            send_control(group, message,
                         net->rank[net->first[k] + index % net->ranks_on[k]]);
}

/*
 * To one rank of a node, for all of its ranks, and to those to which this rank
 * has sent messages, which may be overtaken.
 */
static void leave_node(ls_group *group, int node)
{
    const lsi_internode *net = group->net;
    const int *ranks = net->rank + net->first[node], n = net->ranks_on[node];
    const lsi_stream *sends = group->streams.of[LSI_CHANNEL_USER][0];
    lsi_control message = {.rank = group->rank,
                           .about = LSI_CONTROL_LEAVES,
                           .last = group->queue.completed};
    for (int i = 0; i < n; i++)
        if (sends[ranks[i]].position != 0)
            message.sent_to[i / 64] |= (uint64_t)1 << i % 64;
    for (int i = 0; i < n; i++) {
        message.end = sends[ranks[i]].position;
        if (message.end != 0 || i == net->index_of[group->rank] % n)
            send_control(group, &message, ranks[i]);
    }
}

void lsi_control_announce_leaving(ls_group *group)
{
    for (int k = 0; k < group->net->nodes; k++)
        if (k != group->net->node)
            leave_node(group, k);
}

void lsi_control_announce_awaits(ls_group *group)
{
    const lsi_control message = {
        .rank = group->rank,
        .about = LSI_CONTROL_AWAITS,
        .awaits = atomic_load(&lsi_member_of(group, group->rank)->awaits)};
    send_to_nodes(group, &message);
}

/* ---- receiving ----------------------------------------------------------- */

ls_status lsi_control_listen(ls_group *group)
{
    lsi_internode *net = group->net;
    return lsi_internode_receive(group, &net->receive_control, &net->received,
                                 sizeof(net->received), LSI_WIRE_ANYBODY,
                                 LSI_TAG_CONTROL);
}

static bool is_rank(const ls_group *group, int rank)
{
    return rank >= 0 && rank < group->size;
}

/* Checks a message: it holds indices, and UCX receives from any host. */
static bool is_sound(const ls_group *group, const lsi_control *message,
                     size_t bytes)
{
    const int own = group->net->index_of[group->rank];
    if (bytes != sizeof(*message) || !is_rank(group, message->rank) ||
        lsi_shares_memory(group, message->rank))
        return false;
    switch (message->about) {
    case LSI_CONTROL_LEAVES: /* no collective completes without this rank */
        return message->last <= group->queue.sequence &&
               (message->end != 0) ==
                   ((message->sent_to[own / 64] >> own % 64 & 1) != 0);
    case LSI_CONTROL_AWAITS:
        return message->awaits <= (uint32_t)group->size;
    case LSI_CONTROL_FAILED:
        return is_rank(group, message->failure.rank_a) &&
               is_rank(group, message->failure.rank_b) &&
               message->failure.counted >= 0 &&
               message->failure.counted <= group->size;
    default:
        return false;
    }
}

/*
 * The rank has left, although its messages may still be in flight, and the
 * first rank of this node may still have to receive and publish its last
 * arrivals.
 */
static void handle_leaving(ls_group *group, const lsi_control *message)
{
    lsi_member *member = lsi_member_of(group, message->rank);
    group->streams.of[LSI_CHANNEL_USER][1][message->rank].end = message->end;
    for (int i = 0; i < LSI_SENT_WORDS; i++)
        atomic_store(&member->sent_to[i], message->sent_to[i]);
    atomic_store(&member->last, message->last);
    atomic_store(&member->presence, LSI_LEFT);
}

static void handle_control(ls_group *group, const lsi_control *message,
                           size_t bytes)
{
    if (!is_sound(group, message, bytes))
        return;
    if (message->about == LSI_CONTROL_LEAVES)
        handle_leaving(group, message);
    else if (message->about == LSI_CONTROL_AWAITS)
        atomic_store(&lsi_member_of(group, message->rank)->awaits,
                     message->awaits);
    else
        lsi_accept_failure(group, &message->failure);
}

ls_status lsi_control_progress(ls_group *group)
{
    lsi_internode *net = group->net;
    const uint64_t activity = group->activity;
    send_pending(group);
    const ls_status received = lsi_internode_test(group, &net->receive_control);
    if (received == LS_OK) {
        if (net->received.about == LSI_CONTROL_AWAITS)
            group->activity = activity; /* nothing has moved */
        handle_control(group, &net->received, net->receive_control.bytes);
        LS_TRY(lsi_control_listen(group));
    } else if (received != LS_IN_PROGRESS) {
        return received;
    }
    return LS_OK;
}

/* ---- the end ------------------------------------------------------------- */

/*
 * After a failure only control messages matter: a rank that has died receives
 * no data.
 */
static bool is_awaited(const ls_group *group, const lsi_wire_request *request)
{
    const bool is_word = request == &group->net->control[request->rank].request;
    return !request->receives && (is_word || !lsi_has_failed(group));
}

/* Tests what is being sent until all of it is sent, or time is up. */
static void let_go(ls_group *group)
{
    lsi_internode *net = group->net;
    const uint64_t until = lsi_suspending_clock_ns() +
                           (lsi_has_failed(group) ? FAIL_NS : CLOSE_NS);
    bool waits = true;
    while (waits && lsi_suspending_clock_ns() < until) {
        send_pending(group);
        waits = net->control_waits;
        for (lsi_wire_request *f = net->pending, *next; f != NULL; f = next) {
            next = f->next;
            if (is_awaited(group, f) && !lsi_internode_is_over(net, f))
                waits = true;
        }
    }
}

void lsi_control_abandon(ls_group *group)
{
    let_go(group);
    lsi_internode_cancel_all(group->net);
    group->net->control_waits = false;
}
