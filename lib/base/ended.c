#include "base/ended.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/hash.h"

/* Connections are never accepted; the queue holds this many checks. */
enum { BACKLOG = 4096 };

/* A name that begins with a 0 byte is not in the file system. */
static socklen_t name_of(const char *job, int rank, struct sockaddr_un *name)
{
    const uint64_t hash = lsi_hash(LSI_HASH_START, job, strlen(job));
    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    const int length = snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1,
                                "lockstep-%ld-%016llx-ended-%d", (long)getuid(),
                                (unsigned long long)hash, rank);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
                       (size_t)length);
}

static int open_socket(void)
{
    return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

int lsi_ended_publish(const char *job, int rank)
{
    struct sockaddr_un name;
    const socklen_t length = name_of(job, rank, &name);
    const int fd = open_socket();
    if (fd < 0)
        return -1;
    if (bind(fd, (struct sockaddr *)&name, length) == 0 &&
        listen(fd, BACKLOG) == 0)
        return fd;
    const int error_number = errno;
    close(fd);
    errno = error_number;
    return -1;
}

static bool is_ours(int fd)
{
    struct ucred peer;
    socklen_t length = sizeof(peer);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
           peer.uid == getuid();
}

bool lsi_has_ended(const char *job, int rank)
{
    struct sockaddr_un name;
    const socklen_t length = name_of(job, rank, &name);
    const int fd = open_socket();
    if (fd < 0)
        return false;
    const bool found =
        connect(fd, (struct sockaddr *)&name, length) == 0 && is_ours(fd);
    close(fd);
    return found;
}
