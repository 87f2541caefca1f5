/*
 * The wire over UCX: tagged messages of UCP. The tag contains the sender, so
 * that a rank may receive from a certain rank or from any.
 */
#include "comm/net/ucx/ucx.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suspending_clock.h"

#define CANCEL_SECONDS 1.0

lsi_ucx_state lsi_ucx;

static char sentence[512] = "no error";

int lsi_ucx_refuse(int result, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(sentence, sizeof(sentence), format, arguments);
    va_end(arguments);
    return result;
}

int lsi_ucx_check(ucs_status_t status, const char *what)
{
    return status == UCS_OK
               ? 0
               : lsi_ucx_refuse(-1, "%s: %s", what, ucs_status_string(status));
}

/* ---- tickets ------------------------------------------------------------- */

/*
 * A request of UCX, which is a pointer; a message that was sent at once; or one
 * to a rank that was lost before.
 */
enum { REQUEST, OVER, LOST, KINDS = 4 };

static lsi_ticket ticket_of(int kind, uint64_t value)
{
    return (lsi_ticket){value * KINDS + (uint64_t)kind};
}

static int kind_of(const lsi_ticket *ticket)
{
    return (int)(ticket->handle % KINDS);
}

static lsi_ucx_request *request_of(const lsi_ticket *ticket)
{
    return (lsi_ucx_request *)(uintptr_t)ticket->handle;
}

static lsi_ticket ticket_of_request(void *request, int peer)
{
    ((lsi_ucx_request *)request)->peer = peer;
    return (lsi_ticket){(uint64_t)(uintptr_t)request};
}

/* UCX hands it out again as it is. */
static void free_request(lsi_ucx_request *request)
{
    if (request->owned != NULL)
        request->release(request->owned);
    *request = (lsi_ucx_request){.done = 0};
    ucp_request_free(request);
}

static void on_sent(void *request, ucs_status_t status, void *unused)
{
    lsi_ucx_request *own = request;
    (void)unused;
    own->bytes = 0;
    own->status = status;
    own->done = 1;
    if (own->dropped)
        free_request(own);
}

static void on_received(void *request, ucs_status_t status,
                        const ucp_tag_recv_info_t *info, void *unused)
{
    lsi_ucx_request *own = request;
    (void)unused;
    own->bytes = status == UCS_OK ? info->length : 0;
    own->status = status;
    own->done = 1;
}

/* ---- messages ------------------------------------------------------------ */

static int refuse(void)
{
    return lsi_ucx_refuse(-1, "a cancelled message is still in flight; this "
                              "process cannot use UCX any more");
}

static ucp_tag_t tag_from(int rank, int tag)
{
    return (uint64_t)rank << 32 | (uint32_t)tag;
}

/*
 * A copy of a short message. A group's last message may be sent when the group
 * is gone, once the other end has answered.
 */
enum { COPIED_BYTES = 1024 };

static int wire_send(const void *data, size_t bytes, int peer, int from,
                     int tag, lsi_ticket *ticket)
{
    lsi_ucx_peer *to = lsi_ucx.peer[peer];
    if (lsi_ucx.stuck)
        return refuse();
    lsi_ucx_connect(to);
    *ticket = ticket_of(LOST, (uint64_t)peer);
    if (to->lost_ns != 0)
        return 0;
    const ucp_request_param_t param = {.op_attr_mask =
                                           UCP_OP_ATTR_FIELD_CALLBACK |
                                           UCP_OP_ATTR_FIELD_MEMORY_TYPE,
                                       .cb.send = on_sent,
                                       .memory_type = UCS_MEMORY_TYPE_HOST};
    void *copy = bytes <= COPIED_BYTES ? malloc(bytes + 1) : NULL;
    if (copy != NULL && bytes != 0)
        memcpy(copy, data, bytes);
    void *request = ucp_tag_send_nbx(to->ep, copy != NULL ? copy : data, bytes,
                                     tag_from(from, tag), &param);
    if (request != NULL && !UCS_PTR_IS_ERR(request)) {
        *ticket = ticket_of_request(request, peer);
        ((lsi_ucx_request *)request)->owned = copy;
        ((lsi_ucx_request *)request)->release = free;
        return 0;
    }
    free(copy);
    if (request == NULL)
        *ticket = ticket_of(OVER, 0);
    else
        lsi_ucx_lose(to, UCS_PTR_STATUS(request));
    return 0;
}

static int wire_receive(void *data, size_t bytes, int peer, int from, int tag,
                        lsi_ticket *ticket)
{
    const int anybody = peer == LSI_WIRE_ANYBODY;
    if (lsi_ucx.stuck)
        return refuse();
    if (!anybody)
        lsi_ucx_connect(lsi_ucx.peer[peer]); /* to notice when it dies */
    /*
     * UCX 1.13 does not report the length here of a receive that completes at
     * once.
     */
    const ucp_request_param_t param = {.op_attr_mask =
                                           UCP_OP_ATTR_FIELD_CALLBACK |
                                           UCP_OP_ATTR_FIELD_MEMORY_TYPE |
                                           UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
                                       .cb.recv = on_received,
                                       .memory_type = UCS_MEMORY_TYPE_HOST};
    void *request =
        ucp_tag_recv_nbx(lsi_ucx.worker, data, bytes, tag_from(from, tag),
                         anybody ? UINT32_MAX : UINT64_MAX, &param);
    if (UCS_PTR_IS_ERR(request))
        return lsi_ucx_check(UCS_PTR_STATUS(request), "cannot receive");
    *ticket = ticket_of_request(request, peer);
    return 0;
}

static int is_lost(const lsi_ucx_request *request)
{
    return request->peer != LSI_WIRE_ANYBODY &&
           lsi_ucx.peer[request->peer]->lost_ns != 0;
}

/*
 * A message that has begun to arrive may go on arriving, so the receive is over
 * only when UCX says so. UCX does that soon, whatever the other ranks do,
 * unless a sender of a long message has stopped halfway.
 */
static void wire_cancel(lsi_ticket *ticket)
{
    const double until = lsi_suspending_clock_seconds() + CANCEL_SECONDS;
    if (kind_of(ticket) != REQUEST || lsi_ucx.stuck)
        return;
    lsi_ucx_request *request = request_of(ticket);
    if (!request->done)
        ucp_request_cancel(lsi_ucx.worker, request);
    while (!request->done && lsi_suspending_clock_seconds() < until)
        lsi_ucx_progress();
    lsi_ucx.stuck = !request->done;
    if (request->done)
        free_request(request);
    *ticket = ticket_of(OVER, 0);
}

/*
 * Bytes that the wire does not own are left alone only when UCX says so. So
 * this ends the connection, which has not moved data for a while.
 */
static void wire_drop(lsi_ticket *ticket, void *owned, void (*release)(void *))
{
    const double until = lsi_suspending_clock_seconds() + CANCEL_SECONDS;
    lsi_ucx_request *request =
        kind_of(ticket) == REQUEST ? request_of(ticket) : NULL;
    *ticket = ticket_of(OVER, 0);
    if (request == NULL || request->done) {
        if (request != NULL)
            free_request(request);
        if (owned != NULL)
            release(owned);
        return;
    }
    request->dropped = request->owned != NULL || owned != NULL;
    if (request->owned == NULL && owned != NULL) {
        request->owned = owned;
        request->release = release;
    } else if (owned != NULL) {
        release(owned);
    }
    if (request->dropped || lsi_ucx.stuck)
        return;
    lsi_ucx_disconnect(lsi_ucx.peer[request->peer]);
    while (!request->done && lsi_suspending_clock_seconds() < until)
        lsi_ucx_progress();
    lsi_ucx.stuck = !request->done;
    if (request->done)
        free_request(request);
}

/*
 * A message to or from a lost rank is over only when the library may be told,
 * even if UCX has given it up before.
 */
static int test_lost(lsi_ticket *ticket, int number)
{
    const lsi_ucx_peer *peer = lsi_ucx.peer[number];
    if (!lsi_ucx_may_report_lost(peer))
        return 0;
    if (kind_of(ticket) == REQUEST)
        wire_cancel(ticket);
    return lsi_ucx_report_lost(peer);
}

static int test_done(lsi_ticket *ticket, lsi_ucx_request *request,
                     int64_t *done)
{
    const ucs_status_t status = request->status;
    if (status != UCS_OK && is_lost(request))
        return test_lost(ticket, request->peer);
    if (status == UCS_OK)
        *done = (int64_t)request->bytes;
    free_request(request);
    *ticket = ticket_of(OVER, 0);
    return lsi_ucx_check(status, "sending or receiving a message failed");
}

static int wire_test(lsi_ticket *ticket, int64_t *done)
{
    *done = -1;
    if (lsi_ucx.stuck)
        return refuse();
    if (kind_of(ticket) == OVER) {
        *done = 0;
        return 0;
    }
    if (kind_of(ticket) == LOST) {
        lsi_ucx_progress();
        return test_lost(ticket, (int)(ticket->handle / KINDS));
    }
    lsi_ucx_request *request = request_of(ticket);
    if (!request->done)
        lsi_ucx_progress();
    if (request->done)
        return test_done(ticket, request, done);
    return is_lost(request) ? test_lost(ticket, request->peer) : 0;
}

static const char *wire_error(void)
{
    return sentence;
}

static const lsi_wire wire = {
    .version = LSI_WIRE_VERSION,
    .library = lsi_ucx.library,
    .highest_tag = INT32_MAX,
    .open = lsi_ucx_open,
    .meet = lsi_ucx_meet,
    .hold = lsi_ucx_hold,
    .let_go = lsi_ucx_let_go,
    .retire = lsi_ucx_retire,
    .send = wire_send,
    .receive = wire_receive,
    .test = wire_test,
    .cancel = wire_cancel,
    .drop = wire_drop,
    .close = lsi_ucx_close,
    .error = wire_error,
};

__attribute__((visibility("default"))) const lsi_wire *lsi_wire_of_module(void)
{
    return &wire;
}
