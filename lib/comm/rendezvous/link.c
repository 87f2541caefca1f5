#include "comm/rendezvous/link.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"

static void set_option(int fd, int level, int option, int value)
{
    (void)setsockopt(fd, level, option, &value, sizeof(value));
}

void lsi_link_open(lsi_link *link, int fd, double seconds)
{
    enum { PROBES = 3 };
    enum { LONGEST = 32767 }; /* that the kernel takes */
    const int whole = seconds < 1         ? 1
                      : seconds < LONGEST ? (int)seconds
                                          : LONGEST;
    const int apart = whole / PROBES < 1 ? 1 : whole / PROBES;
    *link = (lsi_link){.fd = fd, .most = LSI_LINK_STRANGER_BYTES};
    (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, whole);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, apart);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, PROBES);
    set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 2000 * whole);
}

void lsi_link_close(lsi_link *link)
{
    if (link->fd >= 0)
        close(link->fd);
    lsi_free(link->in);
    lsi_free(link->out);
    *link = (lsi_link){.fd = -1};
}

/* Makes room for `bytes` bytes after the first `used` ones. */
static ls_status make_room(unsigned char **buffer, size_t used, size_t *room,
                           size_t bytes)
{
    enum { LEAST = 1024 };
    size_t more = *room < LEAST ? LEAST : *room;
    if (used + bytes <= *room)
        return LS_OK;
    while (more < used + bytes)
        more *= 2;
    LS_TRY(lsi_alloc_larger(buffer, used, more, LS_MEMORY_COMM,
                            "messages of the rendezvous"));
    *room = more;
    return LS_OK;
}

/* Drops the frame that was handed out last. */
static void drop_taken(lsi_link *link)
{
    assert(link->in_taken <= link->in_used);
    link->in_used -= link->in_taken;
    if (link->in_used > 0 && link->in_taken > 0)
        memmove(link->in, link->in + link->in_taken, link->in_used);
    link->in_taken = 0;
    if (link->in_used == 0) {
        lsi_free(link->in);
        link->in = NULL;
        link->in_room = 0;
    }
}

/* The error of a failed connection: the other host is silent, or closed it. */
static ls_status fail_connection(void)
{
    const bool silent = errno == ETIMEDOUT || errno == EHOSTUNREACH ||
                        errno == ENETUNREACH || errno == ENETDOWN;
    return lsi_fail_errno(silent ? LS_ERR_TIMEOUT : LS_ERR_PEER_DEAD,
                          "the connection has failed");
}

ls_status lsi_link_receive(lsi_link *link)
{
    enum { PIECE = 4096 };
    ssize_t got;
    drop_taken(link);
    /* Callers take the frames before this reads more than one whole frame. */
    while (link->in_used <
           LSI_FRAME_HEADER_BYTES + LSI_STORE_KEY_BYTES + link->most) {
        LS_TRY(make_room(&link->in, link->in_used, &link->in_room, PIECE));
        got = recv(link->fd, link->in + link->in_used,
                   link->in_room - link->in_used, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            break;
        if (got < 0)
            return fail_connection();
        if (got == 0)
            return lsi_fail(LS_ERR_PEER_DEAD,
                            "the other side has closed the connection");
        link->in_used += (size_t)got;
    }
    return LS_OK;
}

ls_status lsi_link_next(lsi_link *link, lsi_frame *out, bool *got)
{
    size_t wanted;
    *got = false;
    drop_taken(link);
    if (link->in_used == 0)
        return LS_OK;
    LS_TRY(lsi_frame_read(link->in, link->in_used, link->most, out,
                          &link->in_taken, &wanted));
    *got = link->in_taken > 0;
    return LS_OK;
}

/* Drops the bytes that the kernel has, once they exceed the remaining ones. */
static void drop_sent(lsi_link *link)
{
    assert(link->out_sent <= link->out_used);
    const size_t left = link->out_used - link->out_sent;
    if (link->out_sent <= left)
        return;
    memmove(link->out, link->out + link->out_sent, left);
    link->out_sent = 0;
    link->out_used = left;
}

ls_status lsi_link_send(lsi_link *link, lsi_frame_kind kind, const char *key,
                        const void *data, size_t bytes)
{
    unsigned char header[LSI_FRAME_HEADER_BYTES];
    const size_t whole = lsi_frame_header(kind, key, bytes, header);
    drop_sent(link);
    LS_TRY(make_room(&link->out, link->out_used, &link->out_room, whole));
    unsigned char *at = link->out + link->out_used;
    memcpy(at, header, sizeof(header));
    memcpy(at + sizeof(header), key, strlen(key));
    if (bytes > 0)
        memcpy(at + whole - bytes, data, bytes);
    link->out_used += whole;
    return lsi_link_flush(link);
}

ls_status lsi_link_flush(lsi_link *link)
{
    while (link->out_sent < link->out_used) {
        const ssize_t sent =
            send(link->fd, link->out + link->out_sent,
                 link->out_used - link->out_sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return LS_OK;
        if (sent < 0)
            return fail_connection();
        link->out_sent += (size_t)sent;
    }
    lsi_free(link->out);
    link->out = NULL;
    link->out_sent = link->out_used = link->out_room = 0;
    return LS_OK;
}

size_t lsi_link_queued(const lsi_link *link)
{
    return link->out_used - link->out_sent;
}
