#include "comm/bootstrap/socket.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/suspending_clock.h"

lsi_deadline lsi_deadline_in(double seconds)
{
    if (seconds <= 0)
        return (lsi_deadline){0};
    return (lsi_deadline){lsi_suspending_clock_ns() +
                          (uint64_t)(seconds * 1e9)};
}

int lsi_deadline_poll(lsi_deadline deadline)
{
    if (deadline.at_ns == 0)
        return -1;
    const uint64_t now = lsi_suspending_clock_ns();
    if (now >= deadline.at_ns)
        return 0;
    const uint64_t left = (deadline.at_ns - now) / 1000000 + 1;
    return left > LSI_SLICE_MS ? LSI_SLICE_MS : (int)left;
}

/* A name that starts with a 0 byte is not in the file system. */
static socklen_t address_of(const char *name, struct sockaddr_un *address)
{
    memset(address, 0, sizeof(*address));
    address->sun_family = AF_UNIX;
    const size_t length = strlen(name);
    memcpy(address->sun_path + 1, name, length);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

/* Closes a socket that a call has failed with. */
static int close_failed(int fd)
{
    const int error = errno;
    close(fd);
    return -error;
}

/* A socket that is connected to the name, or bound to it; or -errno. */
static int open_socket(const char *name, int type, bool connects)
{
    struct sockaddr_un address;
    const socklen_t length = address_of(name, &address);
    const struct sockaddr *const at = (struct sockaddr *)&address;
    const int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    const int result =
        connects ? connect(fd, at, length) : bind(fd, at, length);
    return result == 0 ? fd : close_failed(fd);
}

int lsi_listen(const char *name, int backlog)
{
    const int fd = open_socket(name, SOCK_SEQPACKET, false);
    return fd < 0 || listen(fd, backlog) == 0 ? fd : close_failed(fd);
}

int lsi_connect(const char *name)
{
    return open_socket(name, SOCK_SEQPACKET, true);
}

int lsi_show_name(const char *name)
{
    return open_socket(name, SOCK_DGRAM, false);
}

/* Shown, for all that is known, unless the kernel refuses. */
bool lsi_name_is_shown(const char *name)
{
    const int fd = open_socket(name, SOCK_DGRAM, true);
    if (fd >= 0)
        close(fd);
    return fd != -ECONNREFUSED;
}

int lsi_same_user(int fd)
{
    struct ucred peer;
    socklen_t length = sizeof(peer);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
           peer.uid == getuid();
}

/* Room for one descriptor, aligned as the kernel wants it. */
typedef union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
} control;

int lsi_send_packet(int fd, const void *data, size_t bytes, int descriptor)
{
    struct iovec part = {.iov_len = bytes};
    memcpy(&part.iov_base, &data, sizeof(data)); /* sendmsg does not write it */
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    control room = {0};
    if (descriptor >= 0) {
        message.msg_control = room.bytes;
        message.msg_controllen = sizeof(room.bytes);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
    }
    ssize_t sent;
    do
        sent = sendmsg(fd, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)bytes ? 0 : -1;
}

/*
 * The first descriptor; the buffer has room for one more than a peer should
 * send.
 */
static int first_descriptor(struct msghdr *message)
{
    int descriptor = -1;
    const struct cmsghdr *header = CMSG_FIRSTHDR(message);
    if (header == NULL || header->cmsg_level != SOL_SOCKET ||
        header->cmsg_type != SCM_RIGHTS)
        return -1;
    const size_t n = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < n; i++) {
        int came;
        memcpy(&came, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
        if (i == 0)
            descriptor = came;
        else
            close(came);
    }
    return descriptor;
}

static int wait_readable(int fd, lsi_deadline deadline)
{
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    for (;;) {
        const int left = lsi_deadline_poll(deadline);
        const int ready = poll(&poller, 1, left);
        if (ready > 0)
            return 0;
        if (ready < 0 && errno != EINTR)
            return -1;
        if (left == 0) {
            errno = ETIMEDOUT;
            return -1;
        }
    }
}

int lsi_receive_packet(int fd, void *data, size_t bytes, int *descriptor,
                       lsi_deadline deadline)
{
    struct iovec part = {data, bytes};
    control room = {0};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = room.bytes,
                             .msg_controllen = sizeof(room.bytes)};
    if (wait_readable(fd, deadline) != 0)
        return -1;
    ssize_t got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    /*
     * A peer that closes without reading all data resets the connection; its
     * own data can still be read.
     */
    if (got < 0 && errno == ECONNRESET)
        got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    if (got <= 0)
        return got == 0 || errno == ECONNRESET ? 0 : -1;
    const int came = first_descriptor(&message);
    if (descriptor != NULL)
        *descriptor = came;
    else if (came >= 0)
        close(came);
    if (got == (ssize_t)bytes && (message.msg_flags & MSG_TRUNC) == 0)
        return 1;
    errno = EPROTO;
    return -1;
}
