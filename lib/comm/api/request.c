/*
 * Requests: making, starting and waiting for them.
 */
#include "comm/api/request.h"

#include <assert.h>

#include "base/error.h"
#include "base/memory.h"
#include "comm/api/check.h"
#include "comm/core/agree.h"
#include "comm/core/collective.h"
#include "comm/core/coprogress.h"
#include "comm/core/engine.h"
#include "comm/core/wait.h"
#include "comm/health/recorder.h"
#include "comm/state/forks.h"
#include "fold/fold.h"

/* A collective to be planned. */
typedef struct wanted {
    lsi_call call;
    const void *send;
    void *recv;
    size_t first, shard;
    const lsi_counts *counts; /* one for each rank, or NULL */
} wanted;

ls_status lsi_request_make(ls_group *group, ls_request **out)
{
    LS_TRY(
        lsi_alloc_zeroed(out, sizeof(ls_request), LS_MEMORY_COMM, "a request"));
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
    if (request == NULL)
        return;
    if (request->in_flight && request->is_message)
        lsi_message_withdraw(request->group, &request->message);
    else if (request->in_flight)
        lsi_collective_withdraw(&request->op);
    lsi_counts_free(&request->op.counted);
    lsi_free(request->op.scratch);
    lsi_free(request->widened.block);
    lsi_free(request);
}

static ls_status make_planned(ls_group *group, const wanted *w,
                              ls_request **out)
{
    ls_request *request = NULL;
    lsi_call call = w->call;
    ls_status status = LS_OK;
    LS_TRY(lsi_request_make(group, &request));
    request->op.cut = (lsi_cut){.first = w->first, .shard = w->shard};
    if (w->counts != NULL)
        status = lsi_counts_note(&request->op.counted, group, w->counts, &call);
    if (status == LS_OK)
        status = lsi_collective_prepare(&request->op, group, &call, w->send,
                                        w->recv);
    if (status != LS_OK) {
        discard(request);
        return status;
    }
    request->send = w->send;
    request->op.failure = request->reason;
    request->op.failure_bytes = sizeof(request->reason);
    *out = request;
    return LS_OK;
}

static ls_status plan_request(ls_group *group, const wanted *w,
                              ls_request **request)
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
        lsi_collective_spare_scratch(&made->op);
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
    return plan_request(group, &w, request);
}

ls_status lsi_reduce_shards_plan(ls_group *group, lsi_buffer data,
                                 lsi_shards shards, ls_request **request)
{
    LS_TRY(lsi_check_group(group, "reduce_shards"));
    const wanted w = {.call = {LSI_OP_REDUCE_SHARDS, data.dtype, LS_REDUCE_SUM,
                               0, data.count, LS_OK},
                      .send = data.data,
                      .recv = data.data,
                      .first = shards.first,
                      .shard = shards.shard};
    return plan_request(group, &w, request);
}

/* Submits a prepared request. */
static ls_status submit(ls_request *request)
{
    assert(!request->in_flight && !request->is_message);
    lsi_coprogress_take(request->group);
    LS_TRY(lsi_collective_submit(&request->op));
    request->group->counters->collectives++;
    request->in_flight = true;
    LS_TRY(lsi_progress(request->group));
    if (!request->op.done)
        lsi_coprogress_join(request->group);
    return LS_OK;
}

/* Starts a collective; `status` is the result of its checks. */
static ls_status start_once(ls_group *group, const wanted *w, ls_status status,
                            ls_request **request)
{
    ls_request *made = NULL;
    if (status == LS_OK && request == NULL)
        status = lsi_fail(LS_ERR_ARGUMENT, "ls_i%s: request is NULL",
                          lsi_operation_name(w->call.operation));
    if (status == LS_OK)
        status = make_planned(group, w, &made);
    if (status != LS_OK)
        return lsi_refuse(group, &w->call, status);
    made->is_over = true;
    status = submit(made);
    if (status == LS_OK)
        *request = made;
    else
        discard(made);
    lsi_on_done_deliver(group);
    return status;
}

static ls_status check_started(const ls_group *group, const lsi_call *call)
{
    if (group == NULL)
        return lsi_fail(LS_ERR_ARGUMENT, "ls_i%s: group is NULL",
                        lsi_operation_name(call->operation));
    return LS_OK;
}

ls_status lsi_request_start(ls_group *group, lsi_call call, const void *send,
                            void *recv, ls_request **request)
{
    LS_TRY(check_started(group, &call));
    const wanted w = {.call = call,
                      .send = lsi_sent_from(group, &call, send),
                      .recv = lsi_received_at(group, &call, recv)};
    return start_once(group, &w, lsi_check_buffers(group, &call, send, recv),
                      request);
}

ls_status lsi_request_start_widened(ls_group *group, lsi_call call,
                                    lsi_ready ready, ls_request **request)
{
    const wanted w = {.call = call, .send = ready.send, .recv = ready.recv};
    const ls_status status = start_once(group, &w, ready.status, request);
    if (status == LS_OK)
        (*request)->widened = ready.widened;
    else
        lsi_free(ready.widened.block);
    return status;
}

ls_status lsi_request_start_counted(ls_group *group, lsi_call call,
                                    const lsi_counted_buffers *buffers,
                                    ls_request **request)
{
    LS_TRY(check_started(group, &call));
    const wanted w = {.call = call,
                      .send = buffers->send,
                      .recv = buffers->recv,
                      .counts = &buffers->counts};
    return start_once(group, &w, lsi_check_counted(group, &call, buffers),
                      request);
}

ls_status ls_start(ls_request *request)
{
    LS_NEED(request);
    if (request->is_message || request->is_over)
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "ls_start needs a planned request (see ls_all_reduce_plan)");
    /*
     * If a function of another request starts this one, its own may still be
     * due.
     */
    if (!request->in_flight && request->on_done != NULL)
        lsi_on_done_call_first(request->group, &request->completion);
    if (request->in_flight)
        return lsi_refuse(request->group, &request->op.call,
                          lsi_fail(LS_ERR_STATE,
                                   "ls_start: the request is still in flight; "
                                   "wait for the request first"));
    request->op.send = request->send;
    request->on_done = NULL; /* that was for the last time */
    ls_status status = lsi_collective_reserve_scratch(&request->op);
    status =
        status == LS_OK ? submit(request) : lsi_refuse_planned(request, status);
    lsi_on_done_deliver(request->group);
    return status;
}

ls_status lsi_refuse_planned(ls_request *request, ls_status status)
{
    assert(!request->is_message && !request->is_over);
    return lsi_refuse(request->group, &request->op.call, status);
}

/* ---- done -----------------------------------------------------------------
 */

/* Brings a result that was computed elsewhere to its place, once. */
static void bring(ls_request *request)
{
    const lsi_widened *w = &request->widened;
    if (w->to != NULL && request->op.status == LS_OK && w->count != 0)
        lsi_serial_convert(w->to, w->dtype, w->sums, request->op.call.dtype,
                           w->count);
    request->widened.to = NULL;
}

static void call_function(lsi_on_done *completion, ls_status status)
{
    ls_request *request = (ls_request *)completion;
    if (request->op.done && !request->is_message)
        bring(request);
    if (status == LS_OK && !request->is_message)
        status = request->op.status;
    if (status != LS_OK && request->op.done && !request->is_message)
        (void)lsi_fail(status, "%s", request->reason);
    request->on_done(request->context, status);
}

ls_status ls_request_on_done(ls_request *request, ls_done_fn function,
                             void *context)
{
    LS_NEED(request, function);
    if (!request->in_flight || request->on_done != NULL)
        return lsi_fail(LS_ERR_STATE, "ls_request_on_done: the request %s",
                        request->in_flight ? "already has a completion function"
                                           : "is not in flight");
    lsi_coprogress_take(request->group);
    request->on_done = function;
    request->context = context;
    request->completion.done = done_flag(request);
    request->completion.call = call_function;
    lsi_on_done_add(request->group, &request->completion);
    lsi_on_done_deliver(request->group);
    return LS_OK;
}

/* ---- waiting ------------------------------------------------------------- */

/* This thread's last error may be about another request. */
static ls_status outcome(ls_request *request)
{
    assert(request->in_flight && *done_flag(request));
    request->in_flight = false;
    lsi_polling_over(request->group);
    bring(request);
    if (!request->is_message && !request->is_over)
        lsi_collective_spare_scratch(&request->op);
    if (request->is_message || request->op.status == LS_OK)
        return LS_OK;
    return lsi_fail(request->op.status, "%s", request->reason);
}

static ls_status check_in_flight(const ls_request *request, const char *what)
{
    if (request == NULL)
        return lsi_fail(LS_ERR_ARGUMENT, "%s: request is NULL", what);
    if (!request->in_flight)
        return lsi_fail(LS_ERR_STATE, "%s: the request is not in flight", what);
    return LS_OK;
}

static ls_status test_request(ls_request *request)
{
    const ls_status status = lsi_progress(request->group);
    if (*done_flag(request))
        return outcome(request);
    LS_TRY(status);
    LS_TRY(lsi_poll(request->group));
    return LS_IN_PROGRESS;
}

ls_status ls_test(ls_request *request)
{
    LS_TRY(check_in_flight(request, "ls_test"));
    ls_group *group = request->group;
    lsi_coprogress_take(group);
    const ls_status status = test_request(request);
    lsi_on_done_deliver(group);
    return status;
}

ls_status ls_wait(ls_request *request)
{
    LS_TRY(check_in_flight(request, "ls_wait"));
    ls_group *group = request->group;
    lsi_coprogress_take(group);
    ls_status status = lsi_wait_for(group, done_flag(request));
    if (status == LS_OK)
        status = outcome(request);
    lsi_on_done_deliver(group);
    return status;
}

ls_status ls_wait_for(ls_request *request, double seconds)
{
    LS_TRY(check_in_flight(request, "ls_wait_for"));
    if (!(seconds >= 0 && seconds < 1e9))
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "ls_wait_for: seconds is %g; it should be from 0 to 1e9", seconds);
    ls_group *group = request->group;
    lsi_coprogress_take(group);
    ls_status status = lsi_wait_seconds(group, done_flag(request), seconds);
    if (status == LS_OK)
        status = outcome(request);
    else if (status == LS_IN_PROGRESS)
        lsi_coprogress_join(group);
    lsi_on_done_deliver(group);
    return status;
}

/* ---- several ------------------------------------------------------------- */

/* Seconds of a wait in one group before the peers of all groups are checked. */
#define TURN_SECONDS 0.05

typedef struct several {
    ls_request *const *all; /* NULL: an empty slot */
    size_t n;
} several;

static ls_status check_several(const several *s, const char *what)
{
    if (s->all == NULL && s->n != 0)
        return lsi_fail(LS_ERR_ARGUMENT, "%s: requests is NULL", what);
    for (size_t i = 0; i < s->n; i++) {
        if (s->all[i] == NULL)
            continue;
        if (!s->all[i]->in_flight)
            return lsi_fail(LS_ERR_STATE,
                            "%s: request %zu of %zu is not in flight", what, i,
                            s->n);
        LS_TRY(lsi_check_group(s->all[i]->group, what));
    }
    return LS_OK;
}

ls_status ls_wait_all(ls_request *const *requests, size_t n)
{
    const several s = {requests, n};
    lsi_error first = {.status = LS_OK};
    LS_TRY(check_several(&s, "ls_wait_all"));
    for (size_t i = 0; i < n; i++)
        if (requests[i] != NULL && requests[i]->in_flight)
            (void)lsi_error_keep(&first, ls_wait(requests[i]));
    return lsi_error_again(&first);
}

/* The first request for which a wait would return at once; n: none. */
static size_t first_over(const several *s)
{
    size_t i = 0;
    while (i < s->n && (s->all[i] == NULL ||
                        !(*done_flag(s->all[i]) || s->all[i]->group->failed)))
        i++;
    return i;
}

static bool is_one_over(const void *goal)
{
    const several *const s = goal;
    return first_over(s) < s->n;
}

/* The next request after i in another group; i if all are in one group. */
static size_t next_turn(const several *s, size_t i)
{
    for (size_t step = 1; step < s->n; step++) {
        const ls_request *const other = s->all[(i + step) % s->n];
        if (other != NULL && other->group != s->all[i]->group)
            return (i + step) % s->n;
    }
    return i;
}

/* Makes this thread move the groups of all requests. */
static void take_over_groups(const several *s)
{
    for (size_t i = 0; i < s->n; i++) {
        if (s->all[i] == NULL)
            continue;
        lsi_coprogress_take(s->all[i]->group);
        lsi_coprogress_join(s->all[i]->group);
    }
}

/*
 * Counts the time of a turn in the groups that are not waited in, and checks
 * their peers. A group's clock that is read less often loses time. A failure
 * completes the request.
 */
static void poll_others(const several *s, const ls_group *waited)
{
    for (size_t i = 0; i < s->n; i++) {
        if (s->all[i] != NULL && s->all[i]->group != waited)
            ls_ignore(lsi_poll(s->all[i]->group));
    }
}

/*
 * *i is the index of a request; on return, of one that is done or has failed.
 */
static ls_status wait_for_one(const several *s, size_t *i)
{
    ls_status status = LS_IN_PROGRESS;
    take_over_groups(s);
    while (!is_one_over(s)) {
        ls_group *const group = s->all[*i]->group;
        status = lsi_wait_seconds_until(group, is_one_over, s, TURN_SECONDS);
        if (status != LS_IN_PROGRESS)
            break;
        poll_others(s, group);
        *i = next_turn(s, *i);
    }
    if (!is_one_over(s))
        return status;
    *i = first_over(s);
    return ls_wait(s->all[*i]);
}

ls_status ls_wait_any(ls_request *const *requests, size_t n, size_t *done)
{
    const several s = {requests, n};
    LS_NEED(done);
    LS_TRY(check_several(&s, "ls_wait_any"));
    *done = 0;
    while (*done < n && requests[*done] == NULL)
        (*done)++;
    return *done == n ? LS_OK : wait_for_one(&s, done);
}

void ls_request_free(ls_request **request)
{
    if (request == NULL || *request == NULL)
        return;
    ls_request *const freed = *request;
    if (freed->in_flight)
        ls_ignore(ls_wait(freed));
    assert(!freed->in_flight || freed->group->failed ||
           lsi_is_inherited(freed->group));
    if (freed->on_done != NULL)
        (void)lsi_on_done_remove(freed->group, &freed->completion);
    discard(freed);
    *request = NULL;
}
