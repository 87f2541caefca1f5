/*
 * The wire over UCX: tagged messages of UCP. Who sends is a part of the tag, so
 * that one may receive from a certain rank or from anybody.
 */
#include "comm/net/ucx/ucx.h"

#include <stdarg.h>
#include <stdio.h>
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

static lsi_ticket take_request(void *request, int peer)
{
    ((lsi_ucx_request *)request)->peer = peer;
    return (lsi_ticket){(uint64_t)(uintptr_t)request};
}

static void free_request(lsi_ucx_request *request)
{
    request->done = 0; /* UCX hands it out again as it is */
    ucp_request_free(request);
}

static void on_sent(void *request, ucs_status_t status, void *unused)
{
    lsi_ucx_request *own = request;
    (void)unused;
    own->bytes = 0;
    own->status = status;
    own->done = 1;
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
    return lsi_ucx_refuse(-1, "a message that was given up is still on its "
                              "way; UCX cannot be used any more");
}

static ucp_tag_t tag_from(int rank, int tag)
{
    return (uint64_t)rank << 32 | (uint32_t)tag;
}

static int wire_send(const void *data, size_t bytes, int peer, int tag,
                     lsi_ticket *ticket)
{
    if (lsi_ucx.stuck)
        return refuse();
    lsi_ucx_connect(peer);
    *ticket = ticket_of(LOST, (uint64_t)peer);
    if (lsi_ucx.peer[peer].lost_ns != 0)
        return 0;
    const ucp_request_param_t param = {.op_attr_mask =
                                           UCP_OP_ATTR_FIELD_CALLBACK |
                                           UCP_OP_ATTR_FIELD_MEMORY_TYPE,
                                       .cb.send = on_sent,
                                       .memory_type = UCS_MEMORY_TYPE_HOST};
    void *request = ucp_tag_send_nbx(lsi_ucx.peer[peer].ep, data, bytes,
                                     tag_from(lsi_ucx.rank, tag), &param);
    if (request == NULL)
        *ticket = ticket_of(OVER, 0);
    else if (!UCS_PTR_IS_ERR(request))
        *ticket = take_request(request, peer);
    else
        lsi_ucx_lose(peer, UCS_PTR_STATUS(request));
    return 0;
}

static int wire_receive(void *data, size_t bytes, int peer, int tag,
                        lsi_ticket *ticket)
{
    const int anybody = peer == LSI_WIRE_ANYBODY;
    if (lsi_ucx.stuck)
        return refuse();
    if (!anybody)
        lsi_ucx_connect(peer); /* to notice when it dies */
    /* Of one that is over at once UCX 1.13 does not tell the length here. */
    const ucp_request_param_t param = {.op_attr_mask =
                                           UCP_OP_ATTR_FIELD_CALLBACK |
                                           UCP_OP_ATTR_FIELD_MEMORY_TYPE |
                                           UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
                                       .cb.recv = on_received,
                                       .memory_type = UCS_MEMORY_TYPE_HOST};
    void *request = ucp_tag_recv_nbx(lsi_ucx.worker, data, bytes,
                                     tag_from(anybody ? 0 : peer, tag),
                                     anybody ? UINT32_MAX : UINT64_MAX, &param);
    if (UCS_PTR_IS_ERR(request))
        return lsi_ucx_check(UCS_PTR_STATUS(request), "a receive");
    *ticket = take_request(request, peer);
    return 0;
}

static int is_lost(const lsi_ucx_request *request)
{
    return request->peer != LSI_WIRE_ANYBODY &&
           lsi_ucx.peer[request->peer].lost_ns != 0;
}

/*
 * What has begun to arrive may go on arriving, so the receive is over only when
 * UCX says so, which it does soon whatever the others do, unless a sender of a
 * long message has stopped halfway.
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
        (void)ucp_worker_progress(lsi_ucx.worker);
    lsi_ucx.stuck = !request->done;
    if (request->done)
        free_request(request);
    *ticket = ticket_of(OVER, 0);
}

/*
 * A message to or from a rank that is lost is over only when the library may be
 * told, even if UCX has given it up before.
 */
static int test_lost(lsi_ticket *ticket, int peer)
{
    if (!lsi_ucx_may_tell_lost(peer))
        return 0;
    if (kind_of(ticket) == REQUEST)
        wire_cancel(ticket);
    return lsi_ucx_tell_lost(peer);
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
    return lsi_ucx_check(status, "a message");
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
        (void)ucp_worker_progress(lsi_ucx.worker);
        return test_lost(ticket, (int)(ticket->handle / KINDS));
    }
    lsi_ucx_request *request = request_of(ticket);
    if (!request->done)
        (void)ucp_worker_progress(lsi_ucx.worker);
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
    .send = wire_send,
    .receive = wire_receive,
    .test = wire_test,
    .cancel = wire_cancel,
    .close = lsi_ucx_close,
    .error = wire_error,
};

__attribute__((visibility("default"))) const lsi_wire *lsi_wire_of_module(void)
{
    return &wire;
}
