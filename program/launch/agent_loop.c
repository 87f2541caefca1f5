/*
 * The agent's connection: finding the endpoint, the handshake, and received
 * messages.
 */
#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/suspending_clock.h"
#include "launch/agent_state.h"

/* Seconds between two attempts to connect, and most seconds of an attempt. */
#define RETRY_SECONDS   0.2
#define CONNECT_SECONDS 2.0

/* ---- the connection --------------------------------------------------- */

static void watch(lsi_agent *a, bool added)
{
    const bool writes =
        a->connection == LSI_AGENT_CONNECTING || lsi_link_queued(&a->link) > 0;
    struct epoll_event event = {
        .events = (a->connection == LSI_AGENT_CONNECTING ? 0 : EPOLLIN) |
                  (writes ? EPOLLOUT : 0)};
    if (a->link.fd >= 0)
        (void)epoll_ctl(a->epoll, added ? EPOLL_CTL_ADD : EPOLL_CTL_MOD,
                        a->link.fd, &event);
}

static void disconnect(lsi_agent *a)
{
    lsi_link_close(&a->link);
    a->connection = LSI_AGENT_NONE;
    a->until = lsi_suspending_clock_seconds() + RETRY_SECONDS;
}

static void end_with(lsi_agent *a, int verdict, const char *text)
{
    if (a->stage == LSI_AGENT_OVER)
        return;
    a->stage = LSI_AGENT_OVER;
    a->verdict = verdict;
    if (text[0] != '\0')
        lsi_output_print(a->output, "%s", text);
    disconnect(a);
}

/*
 * Queues an order. With too many signals queued, an END replaces the last one.
 */
static void order(lsi_agent *a, const lsi_agent_message *message)
{
    if (a->n_orders < LSI_AGENT_MOST_ORDERS)
        a->orders[a->n_orders++] = *message;
    else if (message->word == LSI_AGENT_END)
        a->orders[LSI_AGENT_MOST_ORDERS - 1] = *message;
}

/*
 * Whether the job may start once more. A launcher that ends on purpose sends
 * FINISH first, so a connection closed without it is a loss.
 */
static bool has_restarts_left(const lsi_agent *a)
{
    return a->place.restart < a->terms.limits->max_restarts;
}

void lsi_agent_search_again(lsi_agent *a)
{
    assert(a->stage != LSI_AGENT_OVER);
    a->stage = LSI_AGENT_MEETING;
    a->since = a->reported_at = lsi_suspending_clock_seconds();
    lsi_output_print(
        a->output,
        "waiting up to %g s (--rdzv-conf join_timeout) for the endpoint %s; if "
        "its launcher has ended, run the same command on its host again",
        a->terms.nodes->join_seconds, a->at);
}

/*
 * Handles the loss of the endpoint. Running ranks are ended first. With a
 * restart left, this launcher then looks for the endpoint again.
 */
static void lose(lsi_agent *a, const char *why, bool may_return)
{
    lsi_agent_message end = {.word = LSI_AGENT_END, .verdict = 1};
    const bool again = may_return && has_restarts_left(a);
    char text[LSI_AGENT_TEXT_BYTES];
    assert(a->connection == LSI_AGENT_CONNECTED);
    snprintf(text, sizeof(text), "node 0 at %.100s is lost: %.200s", a->at,
             why);
    disconnect(a);
    if (a->stage == LSI_AGENT_RUNNING) {
        memcpy(end.text, text, sizeof(text));
        order(a, &end);
        a->is_lost = true;
        a->verdict = again ? -1 : 1;
    } else if (may_return) {
        lsi_output_print(a->output, "%s", text);
        lsi_agent_search_again(a);
    } else {
        end_with(a, 1, text);
    }
}

void lsi_agent_send(lsi_agent *a, const lsi_agent_message *message)
{
    char *text;
    size_t bytes;
    if (a->connection != LSI_AGENT_CONNECTED ||
        lsi_agent_message_write(message, &text, &bytes) != LS_OK)
        return;
    /* A failure to send is noticed at the next read. */
    (void)lsi_link_send(&a->link, LSI_FRAME_MESSAGE, "", text, bytes);
    free(text);
    watch(a, false);
}

static void join(lsi_agent *a)
{
    assert(a->connection == LSI_AGENT_SHAKING && a->shake.is_done);
    const lsi_launch_nodes *const nodes = a->terms.nodes;
    lsi_agent_message message = {.word = LSI_AGENT_JOIN,
                                 .least = nodes->least,
                                 .most = nodes->most,
                                 .node = nodes->node,
                                 .local = a->ranks->n,
                                 .port = a->ranks->master_port};
    memcpy(message.agent, a->name, sizeof(a->name));
    memcpy(message.host, a->host, sizeof(a->host));
    lsi_cpu_claim claim;
    lsi_cpu_claim_here(a->ranks->n, &claim);
    lsi_agent_message_set_cpus(&message, &claim);
    if (a->terms.run_id != NULL)
        snprintf(message.run, sizeof(message.run), "%s", a->terms.run_id);
    if (a->place.groups > 0) {
        message.restart = a->place.restart + 1;
        memcpy(message.past, a->place.run, sizeof(message.past));
    }
    a->connection = LSI_AGENT_CONNECTED;
    lsi_agent_send(a, &message);
}

/* ---- connecting ------------------------------------------------------- */

static const char CLOSED[] = "it closed the connection without an answer; the "
                             "launcher of node 0 may have ended";

/* Tries the next address after a moment. */
static void retry(lsi_agent *a, const char *why)
{
    static const double report_after = 5;
    const double now = lsi_suspending_clock_seconds();
    const double most = a->terms.nodes->join_seconds;
    char text[LSI_AGENT_TEXT_BYTES];
    disconnect(a);
    do /* without a secret only loopback addresses, and only one of them */
        a->address =
            a->address->ai_next != NULL ? a->address->ai_next : a->addresses;
    while (a->secret == NULL && !lsi_address_is_loopback(a->address->ai_addr));
    if (now >= a->since + most) {
        snprintf(text, sizeof(text),
                 "given up: the endpoint %.100s was not reachable within %g s "
                 "(--rdzv-conf join_timeout): %.200s",
                 a->at, most, why);
        end_with(a, 1, text);
    } else if (now >= a->reported_at + report_after &&
               now >= a->since + report_after) {
        a->reported_at = now + 5 * report_after;
        lsi_output_print(a->output, "waiting for the endpoint %s: %s", a->at,
                         why);
    }
}

static void begin_handshake(lsi_agent *a)
{
    a->connection = LSI_AGENT_SHAKING;
    a->last_message = lsi_suspending_clock_seconds();
    if (lsi_handshake_begin(&a->shake, false, a->secret, &a->link) != LS_OK)
        retry(a, ls_last_error());
    else
        watch(a, false);
}

static void begin_to_connect(lsi_agent *a)
{
    const struct addrinfo *const to = a->address;
    assert(a->connection == LSI_AGENT_NONE && a->link.fd < 0);
    const int fd =
        socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        retry(a, strerror(errno));
        return;
    }
    lsi_link_open(&a->link, fd, lsi_agent_silence(a->terms.nodes));
    a->connection = LSI_AGENT_CONNECTING;
    a->until = lsi_suspending_clock_seconds() + CONNECT_SECONDS;
    watch(a, true);
    if (connect(fd, to->ai_addr, to->ai_addrlen) != 0 && errno != EINPROGRESS)
        retry(a, strerror(errno));
}

static void check_connecting(lsi_agent *a)
{
    int error_number = 0;
    socklen_t bytes = sizeof(error_number);
    struct sockaddr_storage peer;
    socklen_t length = sizeof(peer);
    (void)getsockopt(a->link.fd, SOL_SOCKET, SO_ERROR, &error_number, &bytes);
    if (error_number != 0)
        retry(a, strerror(error_number));
    else if (getpeername(a->link.fd, (struct sockaddr *)&peer, &length) == 0)
        begin_handshake(a);
    else if (lsi_suspending_clock_seconds() >= a->until)
        retry(a, strerror(ETIMEDOUT));
}

/* ---- what comes ------------------------------------------------------- */

static void start(lsi_agent *a, const lsi_agent_message *message)
{
    const int n = a->ranks->n;
    char ranks[64];
    if (a->stage != LSI_AGENT_MEETING)
        return;
    a->place = *message;
    a->stage = LSI_AGENT_RUNNING;
    a->is_lost = false;
    a->n_orders = 0;
    if (n == 1)
        snprintf(ranks, sizeof(ranks), "rank %d", message->offset);
    else
        snprintf(ranks, sizeof(ranks), "ranks %d to %d", message->offset,
                 message->offset + n - 1);
    lsi_output_print(a->output,
                     "host %s is node %d of %d nodes and runs %s of %d; it "
                     "uses interface %s, address %s (%s)",
                     a->host, message->group, message->groups, ranks,
                     message->world, a->interface.name, a->interface.address,
                     a->interface.why);
}

static void handle_frame(lsi_agent *a, const lsi_frame *frame)
{
    lsi_agent_message message;
    char why[LSI_FRAME_REFUSAL_BYTES + 1];
    char text[LSI_AGENT_TEXT_BYTES];
    if (frame->kind == LSI_FRAME_REFUSED) {
        lsi_frame_refusal(frame, why);
        if (a->stage == LSI_AGENT_RUNNING) {
            lose(a, why, true);
            return;
        }
        snprintf(text, sizeof(text),
                 "the endpoint %.100s refused this host: %.370s", a->at, why);
        end_with(a, 1, text);
    } else if (frame->kind != LSI_FRAME_MESSAGE ||
               lsi_agent_message_read(frame->data, frame->bytes, &message) !=
                   LS_OK) {
        lose(a, "it sent a malformed message", false);
    } else if (message.word == LSI_AGENT_SAY) {
        lsi_output_print(a->output, "%s", message.text);
    } else if (message.word == LSI_AGENT_START) {
        start(a, &message);
    } else if (message.word == LSI_AGENT_END ||
               message.word == LSI_AGENT_SIGNAL) {
        order(a, &message);
    } else if (message.word == LSI_AGENT_FINISH) {
        end_with(a, message.verdict, message.text);
    }
}

static void shake_hands(lsi_agent *a, const lsi_frame *frame)
{
    char text[LSI_AGENT_TEXT_BYTES];
    const ls_status status = lsi_handshake_handle(&a->shake, &a->link, frame);
    if (status == LS_ERR_PEER_DEAD || status == LS_ERR_TIMEOUT) {
        retry(a, CLOSED); /* another launcher may replace it */
    } else if (status != LS_OK) {
        snprintf(text, sizeof(text), "the rendezvous at %.100s failed: %.370s",
                 a->at, ls_last_error());
        end_with(a, 1, text);
    } else if (a->shake.is_done) {
        join(a);
    }
}

/* Handles all received messages, also of a connection that has ended. */
static void handle_frames(lsi_agent *a)
{
    lsi_frame frame;
    bool got = true;
    char text[LSI_AGENT_TEXT_BYTES];
    while (got && a->link.fd >= 0) {
        if (lsi_link_next(&a->link, &frame, &got) != LS_OK) {
            snprintf(text, sizeof(text),
                     "the rendezvous at %.100s failed: %.370s", a->at,
                     ls_last_error());
            end_with(a, 1, text);
        } else if (got && a->connection == LSI_AGENT_SHAKING) {
            shake_hands(a, &frame);
        } else if (got) {
            handle_frame(a, &frame);
        }
    }
}

static void pump(lsi_agent *a)
{
    const size_t before = a->link.in_used;
    /* The last messages of a launcher that has ended can still be read. */
    const ls_status sent = lsi_link_flush(&a->link);
    ls_status status = lsi_link_receive(&a->link);
    if (status == LS_OK)
        status = sent;
    char why[160] = "";
    if (status != LS_OK)
        snprintf(why, sizeof(why), "%.159s", ls_last_error());
    if (a->link.in_used != before)
        a->last_message = lsi_suspending_clock_seconds();
    handle_frames(a);
    if (status == LS_OK || a->link.fd < 0)
        watch(a, false);
    else if (a->connection == LSI_AGENT_SHAKING)
        retry(a, CLOSED);
    else if (status == LS_ERR_TIMEOUT)
        lose(a, why, true);
    else
        lose(a, "its launcher has ended", has_restarts_left(a));
}

/* ---- the loop --------------------------------------------------------- */

static void check_deadlines(lsi_agent *a)
{
    const lsi_agent_message ping = {.word = LSI_AGENT_PING};
    const double now = lsi_suspending_clock_seconds();
    const double limit = lsi_agent_silence(a->terms.nodes);
    char why[160];
    if (a->connection == LSI_AGENT_CONNECTED &&
        now >= a->last_ping + limit / LSI_AGENT_PINGS) {
        a->last_ping = now;
        lsi_agent_send(a, &ping);
    }
    if (a->connection < LSI_AGENT_SHAKING || now < a->last_message + limit)
        return;
    if (a->connection == LSI_AGENT_SHAKING) {
        snprintf(
            why, sizeof(why),
            "it accepted the connection but did not answer for %g s; another "
            "program may listen there, or the launcher of node 0 is stopped",
            limit);
        retry(a, why);
    } else {
        snprintf(why, sizeof(why), "it sent no message for %g s", limit);
        lose(a, why, true);
    }
}

void lsi_agent_step(lsi_agent *a)
{
    uint64_t times;
    const ssize_t got = read(a->timer, &times, sizeof(times));
    (void)got; /* the number of expirations does not matter */
    if (a->coordinator != NULL)
        lsi_coordinator_step(a->coordinator);
    if (a->stage == LSI_AGENT_OVER)
        return;
    if (a->connection == LSI_AGENT_NONE && !a->is_lost &&
        lsi_suspending_clock_seconds() >= a->until)
        begin_to_connect(a);
    if (a->connection == LSI_AGENT_CONNECTING)
        check_connecting(a);
    else if (a->connection != LSI_AGENT_NONE)
        pump(a);
    check_deadlines(a);
}
