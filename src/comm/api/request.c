/*
 * Requests: planned reductions, and messages in flight.
 */
#include "comm/api/request.h"

#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "comm/api/check.h"
#include "comm/core/agree.h"
#include "comm/core/collective.h"
#include "comm/core/coprogress.h"
#include "comm/core/engine.h"
#include "comm/core/message.h"
#include "comm/core/wait.h"
#include "comm/health/recorder.h"

enum { REASON_BYTES = 512 };

struct ls_request {
    ls_group *group;
    bool is_message;
    bool is_over; /* once it is done: it was not planned */
    bool in_flight;
    lsi_message message;
    lsi_collective op;
    const void *send; /* as planned; the op may come to read from recv */
    char reason[REASON_BYTES];
};

/* A collective to be planned. */
typedef struct wanted {
    lsi_call call;
    const void *send;
    void *recv;
    size_t first, shard;
} wanted;

static ls_status make(ls_group *group, ls_request **out)
{
    void *block = NULL;
    LS_TRY(lsi_alloc_zeroed(&block, sizeof(ls_request), LS_MEMORY_COMM,
                            "a request"));
    *out = block;
    (*out)->group = group;
    return LS_OK;
}

static const bool *done_flag(const ls_request *request)
{
    return request->is_message ? &request->message.done : &request->op.done;
}

/* ---- planning ------------------------------------------------------------ */

static void discard(ls_request *request)
{
    if (request != NULL)
        lsi_free(request->op.scratch);
    lsi_free(request);
}

static ls_status make_planned(ls_group *group, const wanted *w,
                              ls_request **out)
{
    ls_request *request = NULL;
    LS_TRY(make(group, &request));
    request->op.cut = (lsi_cut){.first = w->first, .shard = w->shard};
    const ls_status status =
        lsi_collective_prepare(&request->op, group, &w->call, w->send, w->recv);
    if (status != LS_OK) {
        lsi_free(request);
        return status;
    }
    request->send = w->send;
    request->op.failure = request->reason;
    request->op.failure_bytes = sizeof(request->reason);
    *out = request;
    return LS_OK;
}

static ls_status plan(ls_group *group, const wanted *w, ls_request **request)
{
    lsi_call agreed = w->call;
    agreed.operation = LSI_OP_PLAN;
    ls_request *made = NULL;
    ls_status status = lsi_check_buffers(group, &w->call, w->send, w->recv);
    if (status == LS_OK && request == NULL)
        status =
            lsi_fail(LS_ERR_ARGUMENT, "ls_all_reduce_plan: request is NULL");
    if (status == LS_OK)
        status = make_planned(group, w, &made);
    status = lsi_agree(group, &agreed, status);
    if (status == LS_OK && request != NULL) {
        *request = made;
        return LS_OK;
    }
    discard(made);
    return status;
}

ls_status ls_all_reduce_plan(ls_group *group, const void *send, void *recv,
                             size_t count, ls_dtype dtype, ls_reduce_op op,
                             ls_request **request)
{
    LS_TRY(lsi_check_group(group, "ls_all_reduce_plan"));
    const wanted w = {.call = {LSI_OP_ALL_REDUCE, dtype, op, 0, count, LS_OK},
                      .send = send,
                      .recv = recv};
    return plan(group, &w, request);
}

ls_status lsi_reduce_shards_plan(ls_group *group, lsi_buffer data,
                                 lsi_shards shards, ls_request **request)
{
    LS_TRY(lsi_check_group(group, "reduce_shards"));
    const wanted w = {.call = {LSI_OP_REDUCE_SHARDS, data.dtype, LS_SUM, 0,
                               data.count, LS_OK},
                      .send = data.data,
                      .recv = data.data,
                      .first = shards.first,
                      .shard = shards.shard};
    return plan(group, &w, request);
}

/* Submits what has been prepared. */
static ls_status submit(ls_request *request)
{
    lsi_coprogress_take(request->group);
    LS_TRY(lsi_collective_submit(&request->op));
    request->group->counters->collectives++;
    request->in_flight = true;
    LS_TRY(lsi_progress(request->group));
    if (!request->op.done)
        lsi_coprogress_join(request->group);
    return LS_OK;
}

ls_status lsi_request_start(ls_group *group, lsi_call call, const void *send,
                            void *recv, ls_request **request)
{
    const char *const name = lsi_operation_name(call.operation);
    if (group == NULL)
        return lsi_fail(LS_ERR_ARGUMENT, "ls_i%s: group is NULL", name);
    const wanted w = {.call = call,
                      .send = lsi_sent_from(group, &call, send),
                      .recv = lsi_received_at(group, &call, recv)};
    ls_request *made = NULL;
    ls_status status = lsi_check_buffers(group, &call, send, recv);
    if (status == LS_OK && request == NULL)
        status = lsi_fail(LS_ERR_ARGUMENT, "ls_i%s: request is NULL", name);
    if (status == LS_OK)
        status = make_planned(group, &w, &made);
    if (status != LS_OK)
        return lsi_refuse(group, &call, status);
    made->is_over = true;
    status = submit(made);
    if (status == LS_OK)
        *request = made;
    else
        discard(made);
    return status;
}

ls_status ls_start(ls_request *request)
{
    LS_NEED(request);
    if (request->is_message || request->is_over)
        return lsi_fail(LS_ERR_ARGUMENT, "ls_start needs a planned request");
    if (request->in_flight)
        return lsi_refuse(
            request->group, &request->op.call,
            lsi_fail(LS_ERR_STATE,
                     "ls_start of a request that is in flight: wait first"));
    request->op.send = request->send;
    return submit(request);
}

ls_status lsi_refuse_planned(ls_request *request, ls_status status)
{
    return lsi_refuse(request->group, &request->op.call, status);
}

/* ---- waiting ------------------------------------------------------------- */

/* This thread's last error may be about another request. */
static ls_status outcome(ls_request *request)
{
    request->in_flight = false;
    lsi_polling_over(request->group);
    if (request->is_message || request->op.status == LS_OK)
        return LS_OK;
    return lsi_fail(request->op.status, "%s", request->reason);
}

static ls_status check_in_flight(const ls_request *request, const char *what)
{
    if (request == NULL)
        return lsi_fail(LS_ERR_ARGUMENT, "%s: request is NULL", what);
    if (!request->in_flight)
        return lsi_fail(LS_ERR_STATE, "%s of a request that is not in flight",
                        what);
    return LS_OK;
}

ls_status ls_test(ls_request *request)
{
    LS_TRY(check_in_flight(request, "ls_test"));
    lsi_coprogress_take(request->group);
    const ls_status status = lsi_progress(request->group);
    if (*done_flag(request))
        return outcome(request);
    LS_TRY(status);
    LS_TRY(lsi_poll(request->group));
    return LS_IN_PROGRESS;
}

ls_status ls_wait(ls_request *request)
{
    LS_TRY(check_in_flight(request, "ls_wait"));
    lsi_coprogress_take(request->group);
    LS_TRY(lsi_wait_for(request->group, done_flag(request)));
    return outcome(request);
}

ls_status ls_wait_for(ls_request *request, double seconds)
{
    LS_TRY(check_in_flight(request, "ls_wait_for"));
    if (!(seconds >= 0 && seconds < 1e9))
        return lsi_fail(LS_ERR_ARGUMENT,
                        "ls_wait_for: %g seconds; 0 to 1e9 are possible",
                        seconds);
    lsi_coprogress_take(request->group);
    const ls_status status =
        lsi_wait_seconds(request->group, done_flag(request), seconds);
    if (status == LS_OK)
        return outcome(request);
    if (status == LS_IN_PROGRESS)
        lsi_coprogress_join(request->group);
    return status;
}

void ls_request_free(ls_request **request)
{
    if (request == NULL || *request == NULL)
        return;
    if ((*request)->in_flight)
        (void)ls_wait(*request);
    lsi_free((*request)->op.scratch);
    lsi_free(*request);
    *request = NULL;
}

/* ---- messages ------------------------------------------------------------ */

static ls_status check_message(const ls_group *group, lsi_operation operation,
                               lsi_buffer buffer, int peer)
{
    const lsi_call call = {
        .operation = operation, .dtype = buffer.dtype, .count = buffer.count};
    LS_TRY(lsi_check_arguments(group, &call));
    if (peer < 0 || peer >= group->size)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "%s: there is no rank %d in a group of %d",
                        lsi_operation_name(operation), peer, group->size);
    return lsi_check_extent(&call, (lsi_buffer_extent){"data", buffer.data, 1});
}

static void post(ls_group *group, lsi_message *message, lsi_operation operation,
                 lsi_buffer buffer, int peer)
{
    lsi_coprogress_take(group);
    if (lsi_operation_of(operation)->sends != LSI_EXTENT_NOTHING)
        lsi_message_send(group, message, LSI_CHANNEL_USER, buffer, peer);
    else
        lsi_message_receive(group, message, LSI_CHANNEL_USER, buffer, peer);
    lsi_record_message(group, message, operation, peer);
}

static ls_status move_now(ls_group *group, lsi_operation operation,
                          lsi_buffer buffer, int peer)
{
    lsi_message message;
    LS_TRY(check_message(group, operation, buffer, peer));
    if (peer == group->rank)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "%s to oneself would wait for itself: use ls_isend "
                        "and ls_irecv",
                        lsi_operation_name(operation));
    post(group, &message, operation, buffer, peer);
    return lsi_wait_for(group, &message.done);
}

static ls_status move_later(ls_group *group, lsi_operation operation,
                            lsi_buffer buffer, int peer, ls_request **request)
{
    LS_TRY(check_message(group, operation, buffer, peer));
    if (request == NULL)
        return lsi_fail(LS_ERR_ARGUMENT, "ls_i%s: request is NULL",
                        lsi_operation_name(operation));
    ls_request *made = NULL;
    LS_TRY(make(group, &made));
    made->is_message = true;
    made->in_flight = true;
    post(group, &made->message, operation, buffer, peer);
    const ls_status status = lsi_progress(group);
    if (status != LS_OK) {
        lsi_free(made);
        return status;
    }
    if (!made->message.done)
        lsi_coprogress_join(group);
    *request = made;
    return LS_OK;
}

/* A message has one pointer for both directions and does not write a send. */
static lsi_buffer to_send(const void *data, size_t count, ls_dtype dtype)
{
    lsi_buffer buffer = {NULL, count, dtype};
    memcpy(&buffer.data, &data, sizeof(data));
    return buffer;
}

ls_status ls_send(ls_group *group, const void *data, size_t count,
                  ls_dtype dtype, int peer)
{
    return move_now(group, LSI_OP_SEND, to_send(data, count, dtype), peer);
}

ls_status ls_recv(ls_group *group, void *data, size_t count, ls_dtype dtype,
                  int peer)
{
    return move_now(group, LSI_OP_RECV, (lsi_buffer){data, count, dtype}, peer);
}

ls_status ls_isend(ls_group *group, const void *data, size_t count,
                   ls_dtype dtype, int peer, ls_request **request)
{
    LS_NEED(group);
    return move_later(group, LSI_OP_SEND, to_send(data, count, dtype), peer,
                      request);
}

ls_status ls_irecv(ls_group *group, void *data, size_t count, ls_dtype dtype,
                   int peer, ls_request **request)
{
    LS_NEED(group);
    return move_later(group, LSI_OP_RECV, (lsi_buffer){data, count, dtype},
                      peer, request);
}
