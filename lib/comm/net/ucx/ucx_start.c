/*
 * Starting UCX, once in a process. The start waits for no other process: the
 * worker belongs to this process, and the library distributes its address.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/variables.h"
#include "comm/net/ucx/ucx.h"

/* ---- settings ------------------------------------------------------------ */

enum { MOST_SETTINGS = 16 };

/*
 * Settings of UCX that the user has not made. They are variables while UCX
 * starts: up to 1.19, ucp_config_modify accepts no names of transports'
 * settings that have the transport in front.
 */
typedef struct settings {
    lsi_variable all[MOST_SETTINGS];
    int count;
} settings;

static void set(settings *own, const char *name, const char *value)
{
    if (own->count < MOST_SETTINGS)
        own->all[own->count++] = (lsi_variable){name, value, false};
}

/* Names of devices for RDMA have a port behind them: "eth0", "mlx5_0:1". */
static int is_tcp(const lsi_wire_start *start)
{
    const char *devices = getenv("UCX_NET_DEVICES");
    if (devices == NULL)
        devices = start->devices;
    return devices != NULL && strchr(devices, ':') == NULL;
}

/*
 * Ranks of one node never use this wire, so shared memory is off. Over TCP a
 * piece goes in one buffer, unannounced whatever its length. Credits limit the
 * bytes that a receiver has not asked for (net/internode_channel.c), and UCX
 * never writes into memory that was given up. Connecting must not wait.
 *
 * The kernel's and UCX's own probes of silent peers would end a job before
 * LOCKSTEP_TIMEOUT does, and would report less.
 */
static void choose(settings *all, const lsi_wire_start *start)
{
    set(all, "UCX_TLS", "^sm");
    if (start->devices != NULL)
        set(all, "UCX_NET_DEVICES", start->devices);
    if (is_tcp(start))
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
    *(lsi_ucx_request *)request = (lsi_ucx_request){.done = 0};
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

/* Signals are for the program's threads, not for those that UCX starts. */
static int start_ucx(const lsi_wire_start *start)
{
    const ucp_worker_params_t params = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    settings own = {.count = 0};
    sigset_t all, before;
    choose(&own, start);
    lsi_variables_add(own.all, own.count);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int result = make_context(start);
    if (result == 0)
        result = lsi_ucx_check(
            ucp_worker_create(lsi_ucx.context, &params, &lsi_ucx.worker),
            "ucp_worker_create");
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    lsi_variables_remove(own.all, own.count);
    return result;
}

/* ---- where it is reached ------------------------------------------------- */

static int make_card(void)
{
    ucp_address_t *address = NULL;
    size_t bytes = 0;
    if (lsi_ucx_check(ucp_worker_get_address(lsi_ucx.worker, &address, &bytes),
                      "ucp_worker_get_address") != 0)
        return -1;
    lsi_ucx_card *card = calloc(1, sizeof(*card) + bytes);
    if (card != NULL)
        memcpy(card->address, address, bytes);
    ucp_worker_release_address(lsi_ucx.worker, address);
    if (card == NULL || getrandom(&card->process, sizeof(card->process), 0) !=
                            sizeof(card->process)) {
        free(card);
        return lsi_ucx_refuse(-1,
                              "cannot create this process's network address: "
                              "memory or random numbers are not available");
    }
    lsi_ucx.card = card;
    lsi_ucx.card_bytes = sizeof(*card) + bytes;
    return 0;
}

int lsi_ucx_open(const lsi_wire_start *start, lsi_wire_opened *out)
{
    static int tried;
    if (!tried) {
        tried = 1;
        (void)snprintf(lsi_ucx.library, sizeof(lsi_ucx.library), "UCX %s",
                       ucp_get_version_string());
        if (start_ucx(start) != 0 || lsi_ucx_listen() != 0 || make_card() != 0)
            return -1;
    }
    if (lsi_ucx.card == NULL)
        return lsi_ucx_refuse(
            -1, "an earlier start of UCX in this process has failed");
    *out = (lsi_wire_opened){.rank = -1,
                             .size = -1,
                             .address = lsi_ucx.card,
                             .bytes = lsi_ucx.card_bytes};
    return 0;
}
