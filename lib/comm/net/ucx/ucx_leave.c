/*
 * How a process leaves the others when it ends, and late messages of closed
 * groups.
 *
 * A process that ends with bytes unread resets its connections, and data that
 * it has sent may be lost with them. So it announces to its connected peers
 * that it leaves, and waits for their answers. A peer answers as soon as it
 * makes progress in any group, and after all of its earlier messages. By then
 * it has received the data ahead of the announcement.
 *
 * The kernel closes the connections. UCX would exchange messages with the peers
 * for that, and they may be gone.
 */
#include <stdlib.h>

#include "base/suspending_clock.h"
#include "comm/net/ucx/ucx.h"

#define LEAVE_SECONDS 10.0

/* ---- who leaves ---------------------------------------------------------- */

static uint64_t leaving; /* the process that announces its end */
static lsi_ucx_request *receive;

static void on_leave_received(void *request, ucs_status_t status,
                              const ucp_tag_recv_info_t *info, void *unused)
{
    lsi_ucx_request *own = request;
    (void)unused;
    own->bytes = status == UCS_OK ? info->length : 0;
    own->done = 1;
}

static void on_leave_sent(void *request, ucs_status_t status, void *unused)
{
    (void)status, (void)unused;
    ucp_request_free(request);
}

static void announce_leave(lsi_ucx_peer *peer)
{
    const ucp_request_param_t param = {.op_attr_mask =
                                           UCP_OP_ATTR_FIELD_CALLBACK |
                                           UCP_OP_ATTR_FIELD_MEMORY_TYPE,
                                       .cb.send = on_leave_sent,
                                       .memory_type = UCS_MEMORY_TYPE_HOST};
    peer->announced = 1;
    lsi_ucx_connect(peer);
    if (peer->lost_ns == 0)
        (void)ucp_tag_send_nbx(peer->ep, &lsi_ucx.card->process,
                               sizeof(lsi_ucx.card->process),
                               LSI_UCX_TAG_LEAVES, &param);
}

int lsi_ucx_listen(void)
{
    const ucp_request_param_t param = {.op_attr_mask =
                                           UCP_OP_ATTR_FIELD_CALLBACK |
                                           UCP_OP_ATTR_FIELD_MEMORY_TYPE |
                                           UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
                                       .cb.recv = on_leave_received,
                                       .memory_type = UCS_MEMORY_TYPE_HOST};
    void *request = ucp_tag_recv_nbx(lsi_ucx.worker, &leaving, sizeof(leaving),
                                     LSI_UCX_TAG_LEAVES, UINT32_MAX, &param);
    if (UCS_PTR_IS_ERR(request))
        return lsi_ucx_check(UCS_PTR_STATUS(request), "cannot receive");
    receive = request;
    return 0;
}

static void handle_leave(void)
{
    for (int i = 0; receive->bytes == sizeof(leaving) && i < lsi_ucx.peers;
         i++) {
        lsi_ucx_peer *peer = lsi_ucx.peer[i];
        if (peer == NULL || peer->card->process != leaving)
            continue;
        peer->leaves = 1;
        if (!peer->announced)
            announce_leave(peer);
    }
    receive->done = 0; /* UCX hands it out again as it is */
    ucp_request_free(receive);
    receive = NULL;
    (void)lsi_ucx_listen();
}

void lsi_ucx_progress(void)
{
    (void)ucp_worker_progress(lsi_ucx.worker);
    while (receive != NULL && receive->done)
        handle_leave();
}

/* ---- leaving ------------------------------------------------------------- */

/* Hands all sent bytes to the kernels. */
static void flush(double until)
{
    const ucp_request_param_t param = {0};
    void *request = ucp_worker_flush_nbx(lsi_ucx.worker, &param);
    if (request == NULL || UCS_PTR_IS_ERR(request))
        return;
    ucs_status_t status = UCS_INPROGRESS;
    while (status == UCS_INPROGRESS && lsi_suspending_clock_seconds() < until) {
        lsi_ucx_progress();
        status = ucp_request_check_status(request);
    }
    if (status != UCS_INPROGRESS)
        ucp_request_free(request);
}

static int is_awaited(const lsi_ucx_peer *peer)
{
    return peer != NULL && peer->ep != NULL && peer->lost_ns == 0 &&
           !peer->leaves;
}

static int someone_is_awaited(void)
{
    for (int i = 0; i < lsi_ucx.peers; i++)
        if (is_awaited(lsi_ucx.peer[i]))
            return 1;
    return 0;
}

void lsi_ucx_close(void)
{
    const double until = lsi_suspending_clock_seconds() + LEAVE_SECONDS;
    if (lsi_ucx.card == NULL || lsi_ucx.stuck)
        return;
    for (int i = 0; i < lsi_ucx.peers; i++)
        if (is_awaited(lsi_ucx.peer[i]))
            announce_leave(lsi_ucx.peer[i]);
    while (someone_is_awaited() && lsi_suspending_clock_seconds() < until)
        lsi_ucx_progress();
    flush(until); /* answers to leaving peers may be in flight */
}

/* ---- what comes for groups that are closed ------------------------------- */

enum { RETIRED = 256 };

static struct retired {
    ucp_tag_t first, mask;
} retired[RETIRED]; /* the last ones */
static int n_retired;

static void on_dropped(void *request, ucs_status_t status,
                       const ucp_tag_recv_info_t *info, void *buffer)
{
    (void)status, (void)info;
    free(buffer);
    ucp_request_free(request);
}

/* Takes an arrived message; whether there was one. */
static int drop(const struct retired *tags)
{
    ucp_tag_recv_info_t info;
    ucp_tag_message_h message =
        ucp_tag_probe_nb(lsi_ucx.worker, tags->first, tags->mask, 1, &info);
    if (message == NULL)
        return 0;
    void *buffer = malloc(info.length + 1);
    const ucp_request_param_t param = {
        .op_attr_mask =
            UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
            UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
        .cb.recv = on_dropped,
        .user_data = buffer,
        .memory_type = UCS_MEMORY_TYPE_HOST};
    void *request =
        ucp_tag_msg_recv_nbx(lsi_ucx.worker, buffer,
                             buffer == NULL ? 0 : info.length, message, &param);
    if (UCS_PTR_IS_ERR(request))
        free(buffer);
    return 1;
}

void lsi_ucx_retire(int first, int tags)
{
    retired[n_retired++ % RETIRED] =
        (struct retired){.first = (uint32_t)first,
                         .mask = UINT32_MAX & ~(uint64_t)(uint32_t)(tags - 1)};
    lsi_ucx_progress();
    for (int i = 0; i < n_retired && i < RETIRED; i++)
        while (drop(&retired[i]))
            continue;
}
