/*
 * The processes that this one shares groups with, and their endpoints. An
 * endpoint is made for the first message; processes of one node send none here.
 * All groups use the same endpoints, so that groups may come and go. A peer is
 * forgotten when it is out of reach and in no group any more.
 *
 * UCX reports a peer whose connection has ended. By then the peer's earlier
 * messages have arrived, perhaps with the reason of a failure, which tells more
 * than the loss of a peer. So the library is told of a lost peer a little
 * later, when it has had time to read them.
 *
 * A silent connection has not ended. The library decides how long to wait for
 * it, and UCX's own probes are off if the library has a limit (ucx_start.c).
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "comm/net/ucx/ucx.h"

#define READ_NS ((uint64_t)100 * 1000 * 1000)

/* ---- endpoints ----------------------------------------------------------- */

void lsi_ucx_lose(lsi_ucx_peer *peer, ucs_status_t why)
{
    if (peer->lost_ns != 0)
        return;
    peer->lost = why;
    peer->lost_ns = lsi_clock_ns();
}

/* Called by UCX while it makes progress. */
static void on_error(void *peer, ucp_ep_h ep, ucs_status_t status)
{
    (void)ep;
    lsi_ucx_lose(peer, status);
}

void lsi_ucx_connect(lsi_ucx_peer *peer)
{
    if (peer->ep != NULL || peer->lost_ns != 0)
        return;
    const ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                      UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = (ucp_address_t *)(void *)peer->card->address,
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {.cb = on_error, .arg = peer}};
    const ucs_status_t status =
        ucp_ep_create(lsi_ucx.worker, &params, &peer->ep);
    if (status != UCS_OK)
        lsi_ucx_lose(peer, status);
}

int lsi_ucx_may_report_lost(const lsi_ucx_peer *peer)
{
    return peer->lost_ns != 0 && lsi_clock_ns() - peer->lost_ns >= READ_NS;
}

int lsi_ucx_report_lost(const lsi_ucx_peer *peer)
{
    return lsi_ucx_refuse(-1, "a rank's process cannot be reached: %s",
                          ucs_status_string(peer->lost));
}

/* ---- who they are -------------------------------------------------------- */

static void on_closed(void *request, ucs_status_t status, void *unused)
{
    (void)status, (void)unused;
    ucp_request_free(request);
}

void lsi_ucx_disconnect(lsi_ucx_peer *peer)
{
    const ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_FLAGS,
        .flags = UCP_EP_CLOSE_FLAG_FORCE,
        .cb.send = on_closed};
    lsi_ucx_lose(peer, UCS_ERR_CANCELED);
    if (peer->ep != NULL)
        (void)ucp_ep_close_nbx(peer->ep, &param);
    peer->ep = NULL;
}

static void forget(int number)
{
    lsi_ucx_peer *peer = lsi_ucx.peer[number];
    lsi_ucx_disconnect(peer);
    free(peer->card);
    free(peer);
    lsi_ucx.peer[number] = NULL;
}

static void forget_lost(void)
{
    for (int i = 0; i < lsi_ucx.peers; i++)
        if (lsi_ucx.peer[i] != NULL && lsi_ucx.peer[i]->holds == 0 &&
            lsi_ucx.peer[i]->lost_ns != 0)
            forget(i);
}

/* An unused number; -1 without memory. */
static int vacancy(void)
{
    int number = 0;
    while (number < lsi_ucx.peers && lsi_ucx.peer[number] != NULL)
        number++;
    if (number < lsi_ucx.peers)
        return number;
    const int more = lsi_ucx.peers * 2 + 16;
    lsi_ucx_peer **grown =
        realloc(lsi_ucx.peer, (size_t)more * sizeof(lsi_ucx_peer *));
    if (grown == NULL)
        return -1;
    for (int i = lsi_ucx.peers; i < more; i++)
        grown[i] = NULL;
    lsi_ucx.peer = grown;
    lsi_ucx.peers = more;
    return number;
}

static int find(const lsi_ucx_card *card)
{
    for (int i = 0; i < lsi_ucx.peers; i++)
        if (lsi_ucx.peer[i] != NULL &&
            lsi_ucx.peer[i]->card->process == card->process)
            return i;
    return -1;
}

/* The number of a process, known or new; -1 without memory. */
static int number_of(const lsi_ucx_card *card, size_t bytes)
{
    const int known = find(card);
    if (known >= 0)
        return known;
    const int number = vacancy();
    if (number < 0)
        return -1;
    lsi_ucx_peer *made = calloc(1, sizeof(*made));
    lsi_ucx_card *copy = malloc(bytes);
    if (made == NULL || copy == NULL) {
        free(made);
        free(copy);
        return -1;
    }
    memcpy(copy, card, bytes);
    made->card = copy;
    lsi_ucx.peer[number] = made;
    return number;
}

int lsi_ucx_meet(const void *addresses, size_t bytes, int size, int *peer)
{
    lsi_ucx_card *card = malloc(bytes); /* aligned, as the addresses are not */
    int met = 0;
    forget_lost();
    while (card != NULL && bytes >= sizeof(*card) && met < size) {
        memcpy(card, (const char *)addresses + (size_t)met * bytes, bytes);
        peer[met] = number_of(card, bytes);
        if (peer[met] < 0)
            break;
        lsi_ucx.peer[peer[met++]]->holds++;
    }
    free(card);
    if (met == size)
        return 0;
    lsi_ucx_let_go(peer, met);
    return lsi_ucx_refuse(-1,
                          "not enough memory for the addresses of the ranks");
}

void lsi_ucx_hold(const int *peer, int size)
{
    for (int r = 0; r < size; r++)
        lsi_ucx.peer[peer[r]]->holds++;
}

void lsi_ucx_let_go(const int *peer, int size)
{
    for (int r = 0; r < size; r++)
        lsi_ucx.peer[peer[r]]->holds--;
}
