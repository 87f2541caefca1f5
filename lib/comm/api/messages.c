/*
 * The public calls of messages between two ranks.
 */
#include "base/error.h"
#include "base/memory.h"
#include "comm/api/check.h"
#include "comm/api/request.h"
#include "comm/core/coprogress.h"
#include "comm/core/engine.h"
#include "comm/core/matching.h"
#include "comm/core/wait.h"
#include "comm/health/recorder.h"

static ls_status check_address(const ls_group *group, lsi_operation operation,
                               lsi_peer_tag at)
{
    const char *const name = lsi_operation_name(operation);
    const bool any = operation == LSI_OP_RECV;
    if ((at.peer < 0 || at.peer >= group->size) &&
        !(any && at.peer == LS_ANY_RANK))
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "%s: rank %d is not in the group, which has ranks 0 to %d", name,
            at.peer, group->size - 1);
    if (at.tag < 0 && !(any && at.tag == LS_ANY_TAG))
        return lsi_fail(LS_ERR_ARGUMENT,
                        "%s: the tag is %d; it should be 0 or more", name,
                        at.tag);
    return LS_OK;
}

static ls_status check_message(const ls_group *group, lsi_operation operation,
                               lsi_buffer buffer, lsi_peer_tag at)
{
    const lsi_call call = {
        .operation = operation, .dtype = buffer.dtype, .count = buffer.count};
    LS_TRY(lsi_check_arguments(group, &call));
    LS_TRY(check_address(group, operation, at));
    return lsi_check_extent(&call, (lsi_buffer_extent){"data", buffer.data, 1});
}

static void post(ls_group *group, lsi_message *message, lsi_operation operation,
                 lsi_buffer buffer, lsi_peer_tag at)
{
    lsi_coprogress_take(group);
    if (operation == LSI_OP_SEND)
        lsi_message_send_tag(group, message, LSI_CHANNEL_USER, buffer, at);
    else
        lsi_message_ask(group, message, buffer, at);
    lsi_record_message(group, message, operation, at.peer);
}

static ls_status move_now(ls_group *group, lsi_operation operation,
                          lsi_buffer buffer, lsi_peer_tag at)
{
    lsi_message message;
    LS_TRY(check_message(group, operation, buffer, at));
    if (at.peer == group->rank)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "%s: the peer is this rank (%d), so the call would "
                        "never return; use ls_isend and ls_irecv",
                        lsi_operation_name(operation), at.peer);
    post(group, &message, operation, buffer, at);
    const ls_status status = lsi_wait_for(group, &message.done);
    lsi_message_withdraw(group, &message); /* of a group that has failed */
    lsi_on_done_deliver(group);
    return status;
}

static ls_status move_later(ls_group *group, lsi_operation operation,
                            lsi_buffer buffer, lsi_peer_tag at,
                            ls_request **request)
{
    LS_TRY(check_message(group, operation, buffer, at));
    if (request == NULL)
        return lsi_fail(LS_ERR_ARGUMENT, "ls_i%s: request is NULL",
                        lsi_operation_name(operation));
    ls_request *made = NULL;
    LS_TRY(lsi_request_make(group, &made));
    made->is_message = true;
    made->in_flight = true;
    post(group, &made->message, operation, buffer, at);
    const ls_status status = lsi_progress(group);
    if (status != LS_OK && group->failed) {
        lsi_message_withdraw(group, &made->message);
        lsi_free(made);
        return status;
    }
    if (!made->message.done)
        lsi_coprogress_join(group);
    *request = made;
    lsi_on_done_deliver(group);
    return LS_OK;
}

static lsi_buffer to_send(const void *data, size_t count, ls_dtype dtype)
{
    return (lsi_buffer){lsi_to_send(data), count, dtype};
}

ls_status ls_send(ls_group *group, const void *data, size_t count,
                  ls_dtype dtype, int peer, int tag)
{
    return move_now(group, LSI_OP_SEND, to_send(data, count, dtype),
                    (lsi_peer_tag){peer, tag});
}

ls_status ls_recv(ls_group *group, void *data, size_t count, ls_dtype dtype,
                  int peer, int tag)
{
    return move_now(group, LSI_OP_RECV, (lsi_buffer){data, count, dtype},
                    (lsi_peer_tag){peer, tag});
}

ls_status ls_isend(ls_group *group, const void *data, size_t count,
                   ls_dtype dtype, int peer, int tag, ls_request **request)
{
    LS_NEED(group);
    return move_later(group, LSI_OP_SEND, to_send(data, count, dtype),
                      (lsi_peer_tag){peer, tag}, request);
}

ls_status ls_irecv(ls_group *group, void *data, size_t count, ls_dtype dtype,
                   int peer, int tag, ls_request **request)
{
    LS_NEED(group);
    return move_later(group, LSI_OP_RECV, (lsi_buffer){data, count, dtype},
                      (lsi_peer_tag){peer, tag}, request);
}

/* ---- sends with receives ------------------------------------------------- */

static size_t bytes_of(lsi_buffer buffer)
{
    return buffer.count * ls_dtype_size(buffer.dtype);
}

static ls_status check_apart(lsi_buffer out, lsi_buffer in)
{
    const uintptr_t from = (uintptr_t)out.data, to = (uintptr_t)in.data;
    if (bytes_of(out) == 0 || bytes_of(in) == 0 || from + bytes_of(out) <= to ||
        to + bytes_of(in) <= from)
        return LS_OK;
    return lsi_fail(LS_ERR_ARGUMENT, "the send and recv buffers overlap");
}

static ls_status check_both(const ls_group *group, lsi_buffer out,
                            lsi_peer_tag to, lsi_buffer in, lsi_peer_tag from)
{
    LS_TRY(check_message(group, LSI_OP_SEND, out, to));
    LS_TRY(check_message(group, LSI_OP_RECV, in, from));
    return check_apart(out, in);
}

ls_status ls_sendrecv(ls_group *group, const void *send, size_t send_count,
                      int to, void *recv, size_t recv_count, int from,
                      ls_dtype dtype, int tag)
{
    const lsi_buffer out = to_send(send, send_count, dtype);
    const lsi_buffer in = {recv, recv_count, dtype};
    const lsi_peer_tag receiver = {to, tag}, sender = {from, tag};
    lsi_message sent, received;
    ls_status status = check_both(group, out, receiver, in, sender);
    if (status != LS_OK)
        return lsi_fail(status, "ls_sendrecv: %s", ls_last_error());
    post(group, &received, LSI_OP_RECV, in, sender);
    post(group, &sent, LSI_OP_SEND, out, receiver);
    status = lsi_wait_for(group, &received.done);
    if (status == LS_OK)
        status = lsi_wait_for(group, &sent.done);
    lsi_message_withdraw(group, &received); /* of a group that has failed */
    lsi_message_withdraw(group, &sent);
    lsi_on_done_deliver(group);
    return status;
}

/* ---- the sender of a message --------------------------------------------- */

static ls_status check_received(const ls_request *request, const char *what)
{
    if (!request->is_message || request->message.turn == 0 ||
        !request->message.done)
        return lsi_fail(LS_ERR_STATE,
                        "%s: the request is not a finished receive", what);
    return LS_OK;
}

ls_status ls_request_source(const ls_request *request, int *rank)
{
    LS_NEED(request, rank);
    LS_TRY(check_received(request, __func__));
    *rank = request->message.peer;
    return LS_OK;
}

ls_status ls_request_tag(const ls_request *request, int *tag)
{
    LS_NEED(request, tag);
    LS_TRY(check_received(request, __func__));
    *tag = request->message.tag;
    return LS_OK;
}

/* ---- probes -------------------------------------------------------------- */

static void report_probe(const lsi_probe *probe, int *source, int *message_tag,
                         size_t *bytes)
{
    if (source != NULL)
        *source = probe->peer;
    if (message_tag != NULL)
        *message_tag = (int)probe->envelope.tag;
    if (bytes != NULL)
        *bytes = probe->envelope.bytes;
}

/* From now on; lsi_matching_probe ends it. */
static ls_status begin_probe(ls_group *group, lsi_probe *probe)
{
    LS_TRY(check_address(group, LSI_OP_RECV,
                         (lsi_peer_tag){probe->peer, probe->tag}));
    lsi_coprogress_take(group);
    lsi_matching_probe(group, probe);
    return LS_OK;
}

ls_status ls_probe(ls_group *group, int peer, int tag, int *source,
                   int *message_tag, size_t *bytes)
{
    LS_NEED(group);
    lsi_probe probe = {.peer = peer, .tag = tag};
    LS_TRY(begin_probe(group, &probe));
    const ls_status status = lsi_wait_for(group, &probe.found);
    lsi_matching_probe(group, NULL);
    if (status == LS_OK)
        report_probe(&probe, source, message_tag, bytes);
    lsi_on_done_deliver(group);
    return status;
}

ls_status ls_iprobe(ls_group *group, int peer, int tag, int *source,
                    int *message_tag, size_t *bytes)
{
    LS_NEED(group);
    lsi_probe probe = {.peer = peer, .tag = tag};
    LS_TRY(begin_probe(group, &probe));
    ls_status status = lsi_progress(group);
    if (status == LS_OK && !probe.found)
        status = lsi_poll(group);
    lsi_matching_probe(group, NULL);
    if (status == LS_OK && !probe.found)
        status = LS_IN_PROGRESS;
    else if (status == LS_OK)
        lsi_polling_over(group);
    if (status == LS_OK)
        report_probe(&probe, source, message_tag, bytes);
    lsi_on_done_deliver(group);
    return status;
}
