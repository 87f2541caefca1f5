#include "comm/rendezvous/server.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/suspending_clock.h"
#include "comm/rendezvous/server_state.h"

enum { MOST_STRANGERS = 256, MOST_PEERS = 16384 };

/* Events name a peer by its number; these are others. */
enum { LISTENER = -1, TIMER = -2 };

/* ---- what is watched -------------------------------------------------- */

void lsi_store_peer_watch(lsi_store_server *s, int number)
{
    lsi_store_peer *const p = s->peers[number];
    const size_t queued = lsi_link_queued(&p->link);
    uint32_t events = EPOLLRDHUP;
    if (p->state != LSI_PEER_WAITING && queued < LSI_PEER_FULL_BYTES)
        events |= EPOLLIN;
    if (queued > 0)
        events |= EPOLLOUT;
    if (events == p->watched || p->state == LSI_PEER_BROKEN)
        return;
    struct epoll_event event = {.events = events, .data.fd = number};
    (void)epoll_ctl(s->epoll, p->watched == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD,
                    p->link.fd, &event);
    p->watched = events;
}

/* Looks every slice, while some peer's time may run out. */
static void tick(lsi_store_server *s, bool wanted)
{
    const struct timespec slice = {.tv_nsec = LSI_SLICE_NS};
    const struct itimerspec off = {.it_interval = {0}};
    const struct itimerspec on = {.it_interval = slice, .it_value = slice};
    if (s->is_ticking != wanted)
        (void)timerfd_settime(s->timer, 0, wanted ? &on : &off, NULL);
    s->is_ticking = wanted;
}

static void listen_for_peers(lsi_store_server *s, bool wanted)
{
    struct epoll_event event = {.events = wanted ? EPOLLIN : 0,
                                .data.fd = LISTENER};
    (void)epoll_ctl(s->epoll, EPOLL_CTL_MOD, s->listener, &event);
    s->is_deaf = !wanted;
}

/* ---- the end of a connection ------------------------------------------ */

static void close_broken(lsi_store_server *s)
{
    for (int i = 0; i < s->n_peers; i++) {
        lsi_store_peer *const p = s->peers[i];
        if (p == NULL || p->state != LSI_PEER_BROKEN)
            continue;
        lsi_link_close(&p->link);
        const bool owned = p->is_owners;
        if (owned)
            s->owner.gone(s->owner.context, i, p->why);
        lsi_free(p);
        s->peers[i] = NULL;
        if (s->is_deaf)
            listen_for_peers(s, true);
    }
}

/* ---- arriving --------------------------------------------------------- */

/* The IPv4 address, or the half of an IPv6 address that names its network. */
static void note_origin(lsi_store_peer *p)
{
    struct sockaddr_storage from = {.ss_family = AF_UNSPEC};
    socklen_t bytes = sizeof(from);
    (void)getpeername(p->link.fd, (struct sockaddr *)&from, &bytes);
    if (from.ss_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, &from, sizeof(v4));
        memcpy(p->origin, &v4.sin_addr, sizeof(v4.sin_addr));
    } else if (from.ss_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, &from, sizeof(v6));
        const bool mapped = IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr);
        memcpy(p->origin, v6.sin6_addr.s6_addr + (mapped ? 12 : 0),
               mapped ? 4 : 8);
    }
}

static int count_from(lsi_store_peer *const *strangers, int n,
                      const lsi_store_peer *like)
{
    int same = 0;
    for (int i = 0; i < n; i++)
        same += memcmp(strangers[i]->origin, like->origin,
                       sizeof(like->origin)) == 0;
    return same;
}

/*
 * Makes room by dropping the oldest stranger of the origin that has most of
 * them. So a host that connects without end displaces its own connections, not
 * those of other hosts.
 */
static void limit_strangers(lsi_store_server *s)
{
    int n = 0, most = 0;
    lsi_store_peer *strangers[MOST_STRANGERS];
    lsi_store_peer *out = NULL;
    for (int i = 0; i < s->n_peers && n < MOST_STRANGERS; i++) {
        lsi_store_peer *const p = s->peers[i];
        if (p != NULL &&
            (p->state == LSI_PEER_STRANGER || p->state == LSI_PEER_ENDING))
            strangers[n++] = p;
    }
    for (int i = 0; i < n && n == MOST_STRANGERS; i++) {
        const int same = count_from(strangers, n, strangers[i]);
        if (same < most || (same == most && strangers[i]->until >= out->until))
            continue;
        most = same;
        out = strangers[i];
    }
    if (out == NULL)
        return;
    lsi_store_peer_break(out, "too many unauthenticated connections");
    close_broken(s);
}

static int free_slot(lsi_store_server *s)
{
    int i = 0;
    void *longer;
    while (i < s->n_peers && s->peers[i] != NULL)
        i++;
    if (i < s->n_peers)
        return i;
    const size_t n = s->n_peers == 0 ? 16 : 2 * (size_t)s->n_peers;
    if (n > MOST_PEERS ||
        lsi_alloc_zeroed(&longer, n * sizeof(lsi_store_peer *), LS_MEMORY_COMM,
                         "connections of the rendezvous") != LS_OK)
        return -1;
    if (i > 0)
        memcpy(longer, s->peers, (size_t)i * sizeof(lsi_store_peer *));
    lsi_free(s->peers);
    s->peers = longer;
    s->n_peers = (int)n;
    return i;
}

static void welcome(lsi_store_server *s, int fd)
{
    lsi_store_peer *p;
    limit_strangers(s);
    const int number = free_slot(s);
    assert(number < 0 || s->peers[number] == NULL);
    if (number < 0 ||
        lsi_alloc_zeroed(&p, sizeof(lsi_store_peer), LS_MEMORY_COMM,
                         "a connection of the rendezvous")) {
        close(fd);
        return;
    }
    s->peers[number] = p;
    p->state = LSI_PEER_STRANGER;
    p->until = lsi_suspending_clock_seconds() + LSI_STRANGER_SECONDS;
    lsi_link_open(&p->link, fd, s->seconds);
    note_origin(p);
    (void)lsi_handshake_begin(&p->shake, true, s->secret, &p->link);
    lsi_store_peer_watch(s, number);
}

static void accept_all(lsi_store_server *s)
{
    enum { AT_ONCE = 64 };
    for (int i = 0; i < AT_ONCE; i++) {
        const int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0)
            welcome(s, fd);
        else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
                 errno == ENOMEM) {
            listen_for_peers(s, false); /* until a connection ends */
            return;
        } else if (errno != EINTR && errno != ECONNABORTED)
            return;
    }
}

/* ---- the loop --------------------------------------------------------- */

/* Reads and ignores a refused peer's words, of which there may be no end. */
static bool has_left(lsi_store_peer *p)
{
    enum { AT_ONCE = 16 };
    char nothing[4096];
    ssize_t got = 1;
    for (int i = 0; i < AT_ONCE && got > 0; i++)
        got = recv(p->link.fd, nothing, sizeof(nothing), MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

static void serve_peer(lsi_store_server *s, int number, uint32_t events)
{
    lsi_store_peer *const p = s->peers[number];
    ls_status status = LS_OK;
    if (p == NULL || p->state == LSI_PEER_BROKEN)
        return;
    if ((events & EPOLLOUT) != 0 && lsi_link_flush(&p->link) != LS_OK)
        lsi_store_peer_break(p, ls_last_error());
    if (p->state == LSI_PEER_ENDING) {
        if (lsi_link_queued(&p->link) == 0)
            (void)shutdown(p->link.fd, SHUT_WR);
        if (has_left(p))
            lsi_store_peer_break(p, "refused");
    } else if (p->state == LSI_PEER_WAITING) {
        if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0)
            lsi_store_peer_break(p, "the other side has closed the connection");
    } else if (p->state != LSI_PEER_BROKEN) {
        char why[160] = "";
        status = lsi_link_receive(&p->link);
        if (status != LS_OK)
            snprintf(why, sizeof(why), "%.159s", ls_last_error());
        lsi_store_peer_handle(s, number);
        if (status != LS_OK)
            lsi_store_peer_break(p, why);
    }
    lsi_store_peer_watch(s, number);
}

static void pass_deadlines(lsi_store_server *s)
{
    uint64_t times;
    const ssize_t got = read(s->timer, &times, sizeof(times));
    const double now = lsi_suspending_clock_seconds();
    (void)got; /* how often does not matter */
    if (s->is_deaf)
        listen_for_peers(s, true);
    for (int i = 0; i < s->n_peers; i++) {
        lsi_store_peer *const p = s->peers[i];
        if (p == NULL || p->until == 0 || now < p->until)
            continue;
        if (p->state == LSI_PEER_WAITING)
            lsi_store_peer_late(s, i);
        else
            lsi_store_peer_break(p, "the connection timed out");
    }
}

void lsi_store_server_step(lsi_store_server *s)
{
    struct epoll_event events[64];
    bool timed = s->is_deaf;
    const int n = epoll_wait(s->epoll, events, 64, 0);
    for (int i = 0; i < n; i++) {
        if (events[i].data.fd == LISTENER)
            accept_all(s);
        else if (events[i].data.fd == TIMER)
            pass_deadlines(s);
        else
            serve_peer(s, events[i].data.fd, events[i].events);
    }
    lsi_store_serve_answered(s);
    close_broken(s);
    for (int i = 0; i < s->n_peers; i++)
        timed = timed || (s->peers[i] != NULL && s->peers[i]->until > 0);
    tick(s, timed || s->is_deaf);
}

/* ---- the owner's calls ------------------------------------------------ */

int lsi_store_server_fd(const lsi_store_server *server)
{
    return server->epoll;
}

int lsi_store_server_port(const lsi_store_server *server)
{
    struct sockaddr_storage own = {.ss_family = AF_UNSPEC};
    socklen_t bytes = sizeof(own);
    (void)getsockname(server->listener, (struct sockaddr *)&own, &bytes);
    return lsi_address_port((const struct sockaddr *)&own);
}

static lsi_store_peer *find(const lsi_store_server *s, int number)
{
    lsi_store_peer *const p =
        number >= 0 && number < s->n_peers ? s->peers[number] : NULL;
    return p == NULL || p->state == LSI_PEER_BROKEN ||
                   p->state == LSI_PEER_ENDING
               ? NULL
               : p;
}

void lsi_store_server_send(lsi_store_server *server, int peer, const void *data,
                           size_t bytes)
{
    lsi_store_peer *const p = find(server, peer);
    if (p == NULL)
        return;
    /* epoll then reports the end of the connection. */
    if (lsi_link_send(&p->link, LSI_FRAME_MESSAGE, "", data, bytes) != LS_OK)
        (void)shutdown(p->link.fd, SHUT_RDWR);
    lsi_store_peer_watch(server, peer);
}

void lsi_store_server_refuse(lsi_store_server *server, int peer,
                             const char *why)
{
    lsi_store_peer *const p = find(server, peer);
    if (p == NULL)
        return;
    lsi_store_peer_refuse(p, why);
    lsi_store_peer_watch(server, peer);
    tick(server, true);
}

void lsi_store_server_clear(lsi_store_server *server)
{
    lsi_store_values_clear(&server->values);
}

/* ---- beginning and end ------------------------------------------------ */

static ls_status open_all(lsi_store_server *s)
{
    struct epoll_event listener = {.events = EPOLLIN, .data.fd = LISTENER};
    struct epoll_event timer = {.events = EPOLLIN, .data.fd = TIMER};
    s->epoll = epoll_create1(EPOLL_CLOEXEC);
    s->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (s->epoll < 0 || s->timer < 0 ||
        epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->listener, &listener) != 0 ||
        epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->timer, &timer) != 0)
        return lsi_fail_errno(LS_ERR_SYSTEM,
                              "cannot start the rendezvous server");
    return LS_OK;
}

ls_status lsi_store_serve(const lsi_endpoint *endpoint, const char *secret,
                          double seconds, const lsi_store_owner *owner,
                          lsi_store_server **out, lsi_store_refusal *why)
{
    lsi_store_server *s;
    int listener = -1;
    *why = LSI_STORE_FAILED;
    LS_TRY(lsi_store_listen(endpoint, secret != NULL, &listener, why));
    ls_status status =
        lsi_alloc_zeroed(&s, sizeof(lsi_store_server), LS_MEMORY_COMM,
                         "the server of the rendezvous");
    if (status != LS_OK) {
        close(listener);
        return status;
    }
    s->secret = secret;
    s->seconds = seconds;
    s->owner = *owner;
    s->listener = listener;
    s->epoll = s->timer = -1;
    status = open_all(s);
    if (status == LS_OK) {
        *out = s;
        *why = LSI_STORE_SERVED;
    } else
        lsi_store_server_close(s);
    return status;
}

void lsi_store_server_close(lsi_store_server *server)
{
    if (server == NULL)
        return;
    const int fds[] = {server->epoll, server->timer, server->listener};
    for (int i = 0; i < server->n_peers; i++) {
        if (server->peers[i] == NULL)
            continue;
        lsi_link_close(&server->peers[i]->link);
        lsi_free(server->peers[i]);
    }
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
    lsi_store_values_clear(&server->values);
    lsi_free(server->peers);
    lsi_free(server);
}
