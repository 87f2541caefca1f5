/*
 * Joining the ranks, and leaving them. UCX itself waits for nobody here: what
 * it makes is this rank's own, and the library's all-gather tells the others
 * where that is reached.
 */
#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suspending_clock.h"
#include "comm/net/ucx/ucx.h"

#define LEAVE_SECONDS 10.0

/* ---- settings ------------------------------------------------------------ */

enum { MOST_SETTINGS = 16 };

/*
 * Settings of UCX that the user has not made. They are variables while it
 * starts: of its transports ucp_config_modify knows, up to 1.19, no names with
 * the transport in front.
 */
typedef struct settings {
    const char *made[MOST_SETTINGS];
    int count;
} settings;

static void set(settings *all, const char *name, const char *value)
{
    if (getenv(name) != NULL || all->count == MOST_SETTINGS)
        return;
    (void)setenv(name, value, 1);
    all->made[all->count++] = name;
}

static void unset_all(const settings *all)
{
    for (int i = 0; i < all->count; i++)
        (void)unsetenv(all->made[i]);
}

/* Names of devices for RDMA have a port behind them: "eth0", "mlx5_0:1". */
static int is_tcp(void)
{
    const char *devices = getenv("UCX_NET_DEVICES");
    return devices != NULL && strchr(devices, ':') == NULL;
}

/*
 * Ranks of one node never come here, so shared memory is off. Over TCP a piece
 * goes in one buffer, unannounced however long it is: what a receiver has not
 * asked for is limited by credits (net/internode_channel.c), and nothing is
 * ever written into memory that was given up. To connect must not wait. The
 * kernel's and UCX's own probes of silent peers would end a job before
 * LOCKSTEP_TIMEOUT does, and would say less.
 */
static void choose(settings *all, const lsi_wire_start *start)
{
    set(all, "UCX_TLS", "^sm");
    if (start->devices != NULL)
        set(all, "UCX_NET_DEVICES", start->devices);
    if (is_tcp())
        set(all, "UCX_RNDV_THRESH", "inf");
    set(all, "UCX_TCP_TX_SEG_SIZE", "64k");
    set(all, "UCX_TCP_RX_SEG_SIZE", "64k");
    set(all, "UCX_TCP_CONN_NB", "y");
    set(all, "UCX_TCP_MAX_NUM_EPS", "inf");
    if (start->seconds <= 0)
        return;
    set(all, "UCX_KEEPALIVE_INTERVAL", "inf");
    set(all, "UCX_TCP_KEEPIDLE", "inf");
}

/* ---- starting ------------------------------------------------------------ */

static void init_request(void *request)
{
    ((lsi_ucx_request *)request)->done = 0;
}

static int make_context(const lsi_wire_start *start)
{
    ucp_config_t *config = NULL;
    if (lsi_ucx_check(ucp_config_read(NULL, NULL, &config),
                      "ucp_config_read") != 0)
        return -1;
    const ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_REQUEST_SIZE |
                      UCP_PARAM_FIELD_REQUEST_INIT |
                      UCP_PARAM_FIELD_TAG_SENDER_MASK |
                      UCP_PARAM_FIELD_ESTIMATED_NUM_EPS,
        .features = UCP_FEATURE_TAG,
        .request_size = sizeof(lsi_ucx_request),
        .request_init = init_request,
        .tag_sender_mask = (uint64_t)UINT32_MAX << 32,
        .estimated_num_eps = (size_t)start->size};
    const int result =
        lsi_ucx_check(ucp_init(&params, config, &lsi_ucx.context), "ucp_init");
    ucp_config_release(config);
    return result;
}

/* Signals are for the program's own threads, and for none that UCX starts. */
static int start_ucx(const lsi_wire_start *start)
{
    const ucp_worker_params_t params = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    settings own = {.count = 0};
    sigset_t all, before;
    choose(&own, start);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int result = make_context(start);
    if (result == 0)
        result = lsi_ucx_check(
            ucp_worker_create(lsi_ucx.context, &params, &lsi_ucx.worker),
            "ucp_worker_create");
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    unset_all(&own);
    return result;
}

/* ---- meeting ------------------------------------------------------------- */

/* A rank that cannot take part has an address of no bytes. */
static int name_refuser(const uint32_t *length, int size)
{
    for (int r = 0; r < size; r++)
        if (length[r] == 0)
            return lsi_ucx_refuse(-1, "rank %d could not start UCX", r);
    return 0;
}

static size_t longest(const uint32_t *length, int size)
{
    size_t most = 0;
    for (int r = 0; r < size; r++)
        most = length[r] > most ? length[r] : most;
    return most;
}

static int gather(const void *send, size_t bytes, void *recv)
{
    const lsi_wire_start *start = &lsi_ucx.start;
    const int result = start->gather(send, bytes, recv, start->seconds, NULL);
    return result == 0 ? 0
                       : lsi_ucx_refuse(result, "the addresses of the ranks "
                                                "did not all come");
}

/* The peers and what they point to stay until the process ends; if some have
 * not come there are none, and the wire is not open. */
static int learn_addresses(const ucp_address_t *own, size_t bytes,
                           uint32_t *length)
{
    const int size = lsi_ucx.size;
    const size_t most = longest(length, size);
    assert(most > 0); /* who has no address has been named */
    char *padded = calloc((size_t)size + 1, most);
    lsi_ucx_peer *peer = calloc((size_t)size, sizeof(*peer));
    if (padded == NULL || peer == NULL) {
        free(padded);
        free(peer);
        return lsi_ucx_refuse(-1, "no memory for the addresses of the ranks");
    }
    memcpy(padded + (size_t)size * most, own, bytes);
    const int result = gather(padded + (size_t)size * most, most, padded);
    if (result != 0) {
        free(padded);
        free(peer);
        return result;
    }
    for (int r = 0; r < size; r++)
        peer[r].address = (ucp_address_t *)(void *)(padded + (size_t)r * most);
    lsi_ucx.peer = peer;
    return 0;
}

/* A rank that has failed so far tells a length of 0, and keeps its reason. */
static int tell_length(size_t bytes, uint32_t *length)
{
    const uint32_t told = (uint32_t)bytes;
    if (bytes != 0)
        return gather(&told, sizeof(told), length);
    (void)lsi_ucx.start.gather(&told, sizeof(told), length,
                               lsi_ucx.start.seconds, NULL);
    return -1;
}

static int meet(void)
{
    ucp_address_t *own = NULL;
    size_t bytes = 0;
    uint32_t *length = calloc((size_t)lsi_ucx.size, sizeof(*length));
    if (length == NULL)
        return lsi_ucx_refuse(-1, "no memory for the addresses of the ranks");
    if (start_ucx(&lsi_ucx.start) != 0 ||
        lsi_ucx_check(ucp_worker_get_address(lsi_ucx.worker, &own, &bytes),
                      "ucp_worker_get_address") != 0)
        bytes = 0;
    int result = tell_length(bytes, length);
    if (result == 0)
        result = name_refuser(length, lsi_ucx.size);
    if (result == 0)
        result = learn_addresses(own, bytes, length);
    free(length);
    if (own != NULL)
        ucp_worker_release_address(lsi_ucx.worker, own);
    return result;
}

int lsi_ucx_open(const lsi_wire_start *start, int *rank, int *size)
{
    static int tried;
    *rank = start->rank;
    *size = start->size;
    if (lsi_ucx.peer != NULL && lsi_ucx.size == start->size &&
        lsi_ucx.rank == start->rank)
        return 0;
    if (tried)
        return lsi_ucx_refuse(-1, "UCX has been started before, for other "
                                  "ranks or in vain");
    tried = 1;
    lsi_ucx.start = *start;
    lsi_ucx.rank = start->rank;
    lsi_ucx.size = start->size;
    const int result = meet();
    (void)snprintf(lsi_ucx.library, sizeof(lsi_ucx.library), "UCX %s",
                   ucp_get_version_string());
    return result;
}

/* ---- leaving ------------------------------------------------------------- */

static int progress(void)
{
    (void)ucp_worker_progress(lsi_ucx.worker);
    return lsi_ucx.lost;
}

/* Hands all that was sent to the kernels. */
static int flush(void)
{
    const double until = lsi_suspending_clock_seconds() + LEAVE_SECONDS;
    const ucp_request_param_t param = {0};
    void *request = ucp_worker_flush_nbx(lsi_ucx.worker, &param);
    if (request == NULL)
        return 1;
    if (UCS_PTR_IS_ERR(request))
        return 0;
    ucs_status_t status = UCS_INPROGRESS;
    while (status == UCS_INPROGRESS && lsi_ucx.lost == 0 &&
           lsi_suspending_clock_seconds() < until) {
        (void)ucp_worker_progress(lsi_ucx.worker);
        status = ucp_request_check_status(request);
    }
    if (status != UCS_INPROGRESS)
        ucp_request_free(request);
    return status == UCS_OK;
}

/*
 * A process that ends with bytes unread resets its connections, and what it has
 * sent may be lost with them. So nobody leaves before all have come to this;
 * but nobody waits for that if a rank is lost. The kernel closes the rest:
 * UCX would talk to the others about it, who may be gone.
 */
void lsi_ucx_close(void)
{
    if (lsi_ucx.peer == NULL || lsi_ucx.stuck || lsi_ucx.lost > 0)
        return;
    char *all = malloc((size_t)lsi_ucx.size);
    if (all != NULL && flush())
        (void)lsi_ucx.start.gather("", 1, all, LEAVE_SECONDS, progress);
    free(all);
}
