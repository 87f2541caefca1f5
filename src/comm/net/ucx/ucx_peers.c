/*
 * Endpoints, one for each rank that this one talks to, made when it first does:
 * ranks of one node never do.
 *
 * UCX reports a peer whose connection has ended. What that peer has sent before
 * has arrived by then, the reason of a failure perhaps, which is better than
 * the news that somebody has left; so the library is told of a lost peer a
 * little later, when it has had time to read it. A connection that is silent
 * has not ended: how long to wait for it is the library's to say, and UCX's own
 * probes are off if it has a limit (ucx_meet.c).
 */
#include "base/clock.h"
#include "comm/net/ucx/ucx.h"

#define READ_NS ((uint64_t)100 * 1000 * 1000)

static void lose(lsi_ucx_peer *peer, ucs_status_t why)
{
    if (peer->lost_ns != 0)
        return;
    peer->lost = why;
    peer->lost_ns = lsi_clock_ns();
    lsi_ucx.lost++;
}

/* Called by UCX while it makes progress. */
static void on_error(void *peer, ucp_ep_h ep, ucs_status_t status)
{
    (void)ep;
    lose(peer, status);
}

void lsi_ucx_lose(int rank, ucs_status_t why)
{
    lose(&lsi_ucx.peer[rank], why);
}

void lsi_ucx_connect(int rank)
{
    lsi_ucx_peer *peer = &lsi_ucx.peer[rank];
    if (peer->ep != NULL || peer->lost_ns != 0)
        return;
    const ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                      UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = peer->address,
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {.cb = on_error, .arg = peer}};
    const ucs_status_t status =
        ucp_ep_create(lsi_ucx.worker, &params, &peer->ep);
    if (status != UCS_OK)
        lose(peer, status);
}

int lsi_ucx_may_tell_lost(int rank)
{
    const lsi_ucx_peer *peer = &lsi_ucx.peer[rank];
    return peer->lost_ns != 0 && lsi_clock_ns() - peer->lost_ns >= READ_NS;
}

int lsi_ucx_tell_lost(int rank)
{
    return lsi_ucx_refuse(-1, "rank %d is out of reach: %s", rank,
                          ucs_status_string(lsi_ucx.peer[rank].lost));
}
