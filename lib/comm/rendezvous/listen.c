/* Where the server of the rendezvous listens. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "comm/rendezvous/secret.h"
#include "comm/rendezvous/server_state.h"

/*
 * Debian gives a host's own name the address 127.0.1.1, at which no other host
 * finds it. So with a secret, such a name means all addresses of this host.
 */
static void widen(const lsi_endpoint *endpoint, struct sockaddr *address)
{
    struct sockaddr_in v4;
    if (lsi_endpoint_is_local(endpoint) || !lsi_address_is_loopback(address) ||
        address->sa_family != AF_INET)
        return;
    memcpy(&v4, address, sizeof(v4));
    v4.sin_addr.s_addr = htonl(INADDR_ANY);
    memcpy(address, &v4, sizeof(v4));
}

/* -1 with errno. *raced: another process has bound the address, as this one. */
static int try_to_listen(const struct addrinfo *address, bool *raced)
{
    enum { BACKLOG = 1024 };
    const int yes = 1;
    *raced = false;
    const int fd = socket(address->ai_family,
                          SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    const bool bound = bind(fd, address->ai_addr, address->ai_addrlen) == 0;
    if (bound && listen(fd, BACKLOG) == 0)
        return fd;
    const int error_number = errno;
    *raced = bound && error_number == EADDRINUSE;
    close(fd);
    errno = error_number;
    return -1;
}

/*
 * With SO_REUSEADDR several processes may bind an address on which nobody
 * listens yet. If they then listen at the same moment, Linux may refuse them
 * all. So each tries again at a different time.
 */
static int listen_at(const struct addrinfo *address)
{
    enum { TRIES = 50, STEP_NS = 1000000, STEPS = 16 };
    bool raced;
    int fd = try_to_listen(address, &raced);
    for (int i = 0; fd < 0 && raced && i < TRIES; i++) {
        const long steps = 1 + (getpid() * 7 + i * 5) % STEPS;
        nanosleep(&(struct timespec){.tv_nsec = steps * STEP_NS}, NULL);
        fd = try_to_listen(address, &raced);
    }
    return fd;
}

static ls_status fail(const lsi_endpoint *endpoint, int error_number,
                      lsi_store_refusal *why)
{
    char text[LSI_ENDPOINT_BYTES];
    lsi_endpoint_print(endpoint, text);
    if (error_number == EADDRINUSE) {
        *why = LSI_STORE_BUSY;
        return lsi_fail(LS_ERR_SYSTEM,
                        "the port of endpoint %s is in use: stop the program "
                        "that uses it, or choose another port",
                        text);
    }
    if (error_number == EADDRNOTAVAIL) {
        *why = LSI_STORE_ELSEWHERE;
        return lsi_fail(LS_ERR_ARGUMENT,
                        "the endpoint %s is not an address of this host", text);
    }
    errno = error_number;
    return lsi_fail_errno(LS_ERR_SYSTEM, "cannot listen at endpoint %s", text);
}

ls_status lsi_store_listen(const lsi_endpoint *endpoint, bool has_secret,
                           int *out, lsi_store_refusal *why)
{
    struct addrinfo *all;
    int fd = -1;
    int error_number = EADDRNOTAVAIL;
    bool open_only = false;
    *why = LSI_STORE_FAILED;
    LS_TRY(lsi_endpoint_resolve(endpoint, &all));
    for (struct addrinfo *a = all; a != NULL && fd < 0; a = a->ai_next) {
        if (!has_secret && !lsi_address_is_loopback(a->ai_addr)) {
            open_only = true;
            continue;
        }
        if (has_secret)
            widen(endpoint, a->ai_addr);
        fd = listen_at(a);
        /* "In use" tells more than "not an address of this host". */
        if (fd < 0 && error_number == EADDRNOTAVAIL)
            error_number = errno;
    }
    freeaddrinfo(all);
    if (fd < 0 && open_only)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "other machines can reach the endpoint %s, so the "
                        "hosts need a secret: " LSI_SECRET_HOW,
                        endpoint->host);
    if (fd < 0)
        return fail(endpoint, error_number, why);
    *why = LSI_STORE_SERVED;
    *out = fd;
    return LS_OK;
}
