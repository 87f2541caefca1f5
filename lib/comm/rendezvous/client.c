/*
 * The client waits: it sends one request at a time and waits for its answer.
 */
#include "comm/rendezvous/client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/suspending_clock.h"
#include "comm/rendezvous/endpoint.h"
#include "comm/rendezvous/handshake.h"
#include "comm/rendezvous/link.h"
#include "comm/rendezvous/secret.h"

/* How long a server may be silent where it has no reason to. */
#define ANSWER_SECONDS  30.0
#define SILENCE_SECONDS 10.0

typedef struct client {
    lsi_link link;
    lsi_handshake shake;
    int owed; /* pending answers, including those to timed-out requests */
    char endpoint[LSI_ENDPOINT_BYTES];
} client;

/* A time of the suspending clock; 0: never. */
static double deadline_in(double seconds)
{
    return seconds > 0 ? lsi_suspending_clock_seconds() + seconds : 0;
}

/* Adds the endpoint to the last error. */
static ls_status fail_at(const client *c, ls_status status)
{
    return lsi_fail(status, "the rendezvous at %s: %s", c->endpoint,
                    ls_last_error());
}

/* Waits for something to be read, or for room to write. */
static ls_status wait_until(const client *c, short events, double until)
{
    struct pollfd polled = {.fd = c->link.fd, .events = events};
    for (;;) {
        const int ready = poll(&polled, 1, LSI_SLICE_MS);
        if (ready > 0)
            return LS_OK;
        if (ready < 0 && errno != EINTR)
            return lsi_fail_errno(LS_ERR_SYSTEM,
                                  "cannot wait for the connection");
        if (until > 0 && lsi_suspending_clock_seconds() >= until)
            return lsi_fail(LS_ERR_TIMEOUT, "no answer in time");
    }
}

/* The next frame that comes; its data is valid until the next call. */
static ls_status await_frame(client *c, lsi_frame *frame, double until)
{
    bool got = false;
    ls_status received = LS_OK;
    for (;;) {
        LS_TRY(lsi_link_next(&c->link, frame, &got));
        if (got)
            return LS_OK;
        LS_TRY(received);
        LS_TRY(wait_until(c, POLLIN, until));
        received = lsi_link_receive(&c->link);
    }
}

static ls_status send_frame(client *c, lsi_frame_kind kind, const char *key,
                            const void *data, size_t bytes)
{
    const double until = deadline_in(ANSWER_SECONDS);
    LS_TRY(lsi_link_send(&c->link, kind, key, data, bytes));
    c->owed++;
    while (lsi_link_queued(&c->link) > 0) {
        LS_TRY(wait_until(c, POLLOUT, until));
        LS_TRY(lsi_link_flush(&c->link));
    }
    return LS_OK;
}

/*
 * The answer to the last request, of one of two kinds. Answers come in the
 * order of the requests. Answers to requests that have timed out are passed
 * over.
 */
static ls_status await_answer(client *c, lsi_frame *frame, lsi_frame_kind a,
                              lsi_frame_kind b, double until)
{
    char why[LSI_FRAME_REFUSAL_BYTES + 1];
    do
        LS_TRY(await_frame(c, frame, until));
    while (--c->owed > 0 && frame->kind != LSI_FRAME_REFUSED);
    if (frame->kind == a || frame->kind == b)
        return LS_OK;
    if (frame->kind != LSI_FRAME_REFUSED)
        return lsi_fail(LS_ERR_FORMAT,
                        "received an unexpected answer (kind %d)",
                        (int)frame->kind);
    lsi_frame_refusal(frame, why);
    return lsi_fail(LS_ERR_STATE, "%s", why);
}

/* ---- requests --------------------------------------------------------- */

static ls_status set(void *context, const char *key, const void *data,
                     size_t bytes)
{
    client *const c = context;
    lsi_frame frame;
    LS_TRY(lsi_frame_check_key(key));
    if (bytes > LSI_STORE_VALUE_BYTES)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "the value of key '%s' has %zu bytes; a store value "
                        "can have at most %d",
                        key, bytes, LSI_STORE_VALUE_BYTES);
    ls_status status = send_frame(c, LSI_FRAME_SET, key, data, bytes);
    if (status == LS_OK)
        status = await_answer(c, &frame, LSI_FRAME_DONE, LSI_FRAME_DONE,
                              deadline_in(ANSWER_SECONDS));
    return status == LS_OK ? LS_OK : fail_at(c, status);
}

static ls_status copy_value(const lsi_frame *frame, const char *key,
                            double seconds, void *data, size_t *bytes)
{
    if (frame->kind == LSI_FRAME_LATE)
        return lsi_fail(LS_ERR_TIMEOUT, "key '%s' was not set within %g s", key,
                        seconds);
    if (frame->bytes > *bytes)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "the value of key '%s' has %zu bytes, but the buffer "
                        "has room for %zu",
                        key, frame->bytes, *bytes);
    if (frame->bytes > 0)
        memcpy(data, frame->data, frame->bytes);
    *bytes = frame->bytes;
    return LS_OK;
}

static ls_status get(void *context, const char *key, void *data, size_t *bytes,
                     double seconds)
{
    client *const c = context;
    lsi_frame frame;
    unsigned char ms[8];
    LS_TRY(lsi_frame_check_key(key));
    lsi_frame_put_number(ms, seconds > 0 ? 1 + (uint64_t)(seconds * 1e3) : 0);
    ls_status status = send_frame(c, LSI_FRAME_GET, key, ms, sizeof(ms));
    if (status == LS_OK)
        status = await_answer(
            c, &frame, LSI_FRAME_VALUE, LSI_FRAME_LATE,
            seconds > 0 ? deadline_in(seconds + ANSWER_SECONDS) : 0);
    if (status == LS_OK)
        status = copy_value(&frame, key, seconds, data, bytes);
    return status == LS_OK ? LS_OK : fail_at(c, status);
}

/* ---- connecting ------------------------------------------------------- */

/* A connected descriptor or -1 with errno. */
static int connect_to(const struct addrinfo *address, double until)
{
    int error_number = 0;
    socklen_t bytes = sizeof(error_number);
    const int fd = socket(address->ai_family,
                          SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const client probe = {.link = {.fd = fd}};
    if (fd < 0)
        return -1;
    if (connect(fd, address->ai_addr, address->ai_addrlen) == 0)
        return fd;
    error_number = errno;
    if (error_number == EINPROGRESS || error_number == EINTR) {
        if (wait_until(&probe, POLLOUT, until) != LS_OK)
            error_number = ETIMEDOUT;
        else
            (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &error_number, &bytes);
    }
    if (error_number == 0)
        return fd;
    close(fd);
    errno = error_number;
    return -1;
}

static ls_status connect_any(client *c, const char *endpoint, bool has_secret,
                             double until)
{
    lsi_endpoint parsed;
    struct addrinfo *all;
    int fd = -1;
    bool any = false;
    LS_TRY(lsi_endpoint_parse(endpoint, &parsed));
    if (parsed.port == 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "the endpoint '%s' has no port; write HOST:PORT",
                        parsed.host);
    lsi_endpoint_print(&parsed, c->endpoint);
    LS_TRY(lsi_endpoint_resolve(&parsed, &all));
    for (const struct addrinfo *a = all; a != NULL && fd < 0; a = a->ai_next) {
        if (!has_secret && !lsi_address_is_loopback(a->ai_addr))
            continue;
        any = true;
        fd = connect_to(a, until);
    }
    const int error_number = errno;
    freeaddrinfo(all);
    if (!any)
        return lsi_fail(LS_ERR_MISMATCH,
                        "other machines can reach the endpoint %s, so the "
                        "endpoint needs a secret: " LSI_SECRET_HOW,
                        c->endpoint);
    errno = error_number;
    if (fd < 0)
        return lsi_fail_errno(
            error_number == ETIMEDOUT ? LS_ERR_TIMEOUT : LS_ERR_PEER_DEAD,
            "cannot connect to the rendezvous at %s", c->endpoint);
    lsi_link_open(&c->link, fd, SILENCE_SECONDS);
    return LS_OK;
}

static ls_status shake_hands(client *c, const char *secret, double until)
{
    lsi_frame frame;
    LS_TRY(lsi_handshake_begin(&c->shake, false, secret, &c->link));
    while (!c->shake.is_done) {
        LS_TRY(await_frame(c, &frame, until));
        LS_TRY(lsi_handshake_handle(&c->shake, &c->link, &frame));
    }
    return LS_OK;
}

ls_status lsi_store_connect(const char *endpoint, const char *secret,
                            double seconds, ls_store *out)
{
    client *c;
    const double until = deadline_in(seconds);
    LS_TRY(lsi_alloc_zeroed(&c, sizeof(client), LS_MEMORY_COMM,
                            "a client of the rendezvous"));
    c->link.fd = -1;
    ls_status status = connect_any(c, endpoint, secret != NULL, until);
    if (status == LS_OK) {
        status = shake_hands(c, secret, until);
        if (status != LS_OK)
            status = fail_at(c, status);
    }
    if (status != LS_OK) {
        lsi_link_close(&c->link);
        lsi_free(c);
        return status;
    }
    c->shake.secret = NULL; /* the caller's, who may free it */
    *out = (ls_store){.context = c, .set = set, .get = get};
    return LS_OK;
}

void lsi_store_disconnect(ls_store *store)
{
    if (store == NULL || store->context == NULL)
        return;
    client *const c = store->context;
    lsi_link_close(&c->link);
    lsi_free(c);
    *store = (ls_store){.context = NULL};
}
