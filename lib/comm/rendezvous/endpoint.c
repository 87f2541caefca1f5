#include "comm/rendezvous/endpoint.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/error.h"

static ls_status fail(const char *text)
{
    return lsi_fail(LS_ERR_ARGUMENT,
                    "'%.300s' is not an endpoint: write HOST:PORT with a port "
                    "of 1 to 65535, such as node0:29400 or [fd00::1]:29400",
                    text);
}

/* Where the host begins and ends; what follows it, or NULL. */
static const char *split(const char *text, const char **host, size_t *length)
{
    const bool bracket = text[0] == '[';
    const char *colon = strrchr(text, ':');
    const char *end = bracket ? strchr(text, ']') : colon;
    *host = text + bracket;
    if (end == NULL) {
        *length = bracket ? 0 : strlen(text);
        return "";
    }
    *length = (size_t)(end - *host);
    return bracket ? end + 1 : end;
}

ls_status lsi_endpoint_parse(const char *text, lsi_endpoint *out)
{
    const char *host;
    size_t length;
    long port = 0;
    char *end = NULL;
    lsi_endpoint made = {.port = 0};
    const char *rest = split(text, &host, &length);
    if (length < 1 || length >= sizeof(made.host) ||
        (text[0] != '[' && memchr(host, ':', length) != NULL))
        return fail(text);
    for (size_t i = 0; i < length; i++) {
        if (host[i] <= ' ' || host[i] > '~')
            return fail(text);
    }
    if (rest[0] == ':') {
        if (rest[1] < '0' || rest[1] > '9')
            return fail(text);
        port = strtol(rest + 1, &end, 10);
        if (*end != '\0' || port < 1 || port > 65535)
            return fail(text);
    } else if (rest[0] != '\0') {
        return fail(text);
    }
    memcpy(made.host, host, length);
    made.port = (int)port;
    *out = made;
    return LS_OK;
}

void lsi_endpoint_print(const lsi_endpoint *endpoint,
                        char out[LSI_ENDPOINT_BYTES])
{
    const bool bracket = strchr(endpoint->host, ':') != NULL;
    snprintf(out, LSI_ENDPOINT_BYTES, "%s%s%s:%d", bracket ? "[" : "",
             endpoint->host, bracket ? "]" : "", endpoint->port);
}

ls_status lsi_endpoint_resolve(const lsi_endpoint *endpoint,
                               struct addrinfo **out)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICSERV};
    char port[16];
    snprintf(port, sizeof(port), "%d", endpoint->port);
    const int failed = getaddrinfo(endpoint->host, port, &hints, out);
    if (failed != 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "cannot find the host '%s' of the endpoint: %s",
                        endpoint->host, gai_strerror(failed));
    return LS_OK;
}

bool lsi_address_is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, address, sizeof(v4));
        return ntohl(v4.sin_addr.s_addr) >> 24 == 127;
    }
    if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, address, sizeof(v6));
        return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr) ||
               (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr) &&
                v6.sin6_addr.s6_addr[12] == 127);
    }
    return false;
}

bool lsi_endpoint_is_local(const lsi_endpoint *endpoint)
{
    const char *host = endpoint->host;
    return strcmp(host, "localhost") == 0 ||
           (strncmp(host, "127.", 4) == 0 &&
            host[strspn(host, "0123456789.")] == '\0') ||
           strcmp(host, "::1") == 0;
}

bool lsi_socket_is_loopback(int fd)
{
    struct sockaddr_storage peer;
    socklen_t bytes = sizeof(peer);
    return getpeername(fd, (struct sockaddr *)&peer, &bytes) == 0 &&
           lsi_address_is_loopback((const struct sockaddr *)&peer);
}

int lsi_address_port(const struct sockaddr *address)
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    if (address->sa_family == AF_INET) {
        memcpy(&v4, address, sizeof(v4));
        return ntohs(v4.sin_port);
    }
    if (address->sa_family != AF_INET6)
        return 0;
    memcpy(&v6, address, sizeof(v6));
    return ntohs(v6.sin6_port);
}

void lsi_address_print(const struct sockaddr *address, char *out, size_t bytes)
{
    const socklen_t length = address->sa_family == AF_INET6
                                 ? sizeof(struct sockaddr_in6)
                                 : sizeof(struct sockaddr_in);
    if (getnameinfo(address, length, out, (socklen_t)bytes, NULL, 0,
                    NI_NUMERICHOST) != 0)
        snprintf(out, bytes, "?");
}
