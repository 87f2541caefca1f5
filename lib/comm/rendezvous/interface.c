#include "comm/rendezvous/interface.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "comm/rendezvous/endpoint.h"

bool lsi_interface_matches(const char *list, const char *name)
{
    const bool excluded = *list == '^';
    list += excluded;
    const bool exact = *list == '=';
    list += exact;
    bool found = false;
    while (*list != '\0' && !found) {
        const size_t length = strcspn(list, ",");
        found = length > 0 && strncmp(list, name, length) == 0 &&
                (!exact || name[length] == '\0');
        list += length;
        list += *list == ',';
    }
    return found != excluded;
}

/* The address that this host has on the route to another; false if none. */
static bool own_address(const struct addrinfo *to, struct sockaddr_storage *own)
{
    socklen_t bytes = sizeof(*own);
    const int fd = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    /* Nothing is sent: the kernel looks up the route. */
    const bool found = fd >= 0 &&
                       connect(fd, to->ai_addr, to->ai_addrlen) == 0 &&
                       getsockname(fd, (struct sockaddr *)own, &bytes) == 0;
    if (fd >= 0)
        close(fd);
    return found;
}

/*
 * Debian gives a host's own name the address 127.0.1.1, by which no other host
 * reaches it. The endpoint's host then uses the route to all other hosts: the
 * one to a documentation address (RFC 5737, RFC 3849). False without such a
 * route.
 */
static bool default_address(int family, struct sockaddr_storage *own)
{
    static const lsi_endpoint v4 = {"192.0.2.1", 9}, v6 = {"2001:db8::1", 9};
    struct addrinfo *to;
    struct sockaddr_storage found = {.ss_family = AF_UNSPEC};
    if (lsi_endpoint_resolve(family == AF_INET6 ? &v6 : &v4, &to) != LS_OK)
        return false;
    const bool good = own_address(to, &found) &&
                      !lsi_address_is_loopback((const struct sockaddr *)&found);
    freeaddrinfo(to);
    if (good)
        *own = found;
    return good;
}

static bool same_address(const struct sockaddr *a, const struct sockaddr *b)
{
    char left[64], right[64];
    if (a->sa_family != b->sa_family)
        return false;
    lsi_address_print(a, left, sizeof(left));
    lsi_address_print(b, right, sizeof(right));
    return strcmp(left, right) == 0;
}

static bool is_allowed(const struct ifaddrs *a, const char *list, int family,
                       bool routed)
{
    const bool named = list != NULL && *list != '\0';
    if (a->ifa_addr == NULL || a->ifa_addr->sa_family != family ||
        (a->ifa_flags & IFF_UP) == 0)
        return false;
    if (!named)
        return routed;
    return lsi_interface_matches(list, a->ifa_name) &&
           (routed || (a->ifa_flags & IFF_LOOPBACK) == 0 || *list != '^');
}

/* The best of all; NULL if none is eligible. */
static const struct ifaddrs *choose(const struct ifaddrs *all, const char *list,
                                    const struct sockaddr *own)
{
    const struct ifaddrs *best = NULL;
    for (const struct ifaddrs *a = all; a != NULL; a = a->ifa_next) {
        const bool routed =
            a->ifa_addr != NULL && same_address(a->ifa_addr, own);
        if (!is_allowed(a, list, own->sa_family, routed))
            continue;
        if (routed)
            return a;
        if (best == NULL)
            best = a;
    }
    return best;
}

static ls_status fail(const struct ifaddrs *all, const char *list,
                      const char *endpoint, int family)
{
    char names[256] = "";
    size_t at = 0;
    for (const struct ifaddrs *a = all; a != NULL; a = a->ifa_next) {
        if (a->ifa_addr == NULL || a->ifa_addr->sa_family != family ||
            (a->ifa_flags & IFF_UP) == 0 ||
            at + strlen(a->ifa_name) + 3 > sizeof(names))
            continue;
        at += (size_t)snprintf(names + at, sizeof(names) - at, "%s%s",
                               at > 0 ? ", " : "", a->ifa_name);
    }
    if (list == NULL || *list == '\0')
        return lsi_fail(LS_ERR_ARGUMENT,
                        "no network interface of this host leads to endpoint "
                        "%s; the interfaces are %s",
                        endpoint, names);
    return lsi_fail(LS_ERR_ARGUMENT,
                    "LOCKSTEP_INTERFACE='%.100s' matches no network interface "
                    "with an address of the endpoint's family (IPv4 or IPv6). "
                    "Interfaces with such an address: %s",
                    list, names);
}

ls_status lsi_interface_choose(const char *list, const char *endpoint,
                               lsi_interface *out)
{
    lsi_endpoint parsed;
    struct addrinfo *to;
    struct ifaddrs *all;
    struct sockaddr_storage own = {.ss_family = AF_UNSPEC};
    LS_TRY(lsi_endpoint_parse(endpoint, &parsed));
    LS_TRY(lsi_endpoint_resolve(&parsed, &to));
    if (!own_address(to, &own))
        own.ss_family = (sa_family_t)to->ai_family;
    freeaddrinfo(to);
    const bool by_default =
        !lsi_endpoint_is_local(&parsed) &&
        lsi_address_is_loopback((const struct sockaddr *)&own) &&
        default_address(own.ss_family, &own);
    if (getifaddrs(&all) != 0)
        return lsi_fail_errno(LS_ERR_SYSTEM,
                              "cannot list the network interfaces");
    const struct ifaddrs *best =
        choose(all, list, (const struct sockaddr *)&own);
    ls_status status = LS_OK;
    if (best == NULL)
        status = fail(all, list, endpoint, own.ss_family);
    else {
        snprintf(out->name, sizeof(out->name), "%s", best->ifa_name);
        lsi_address_print(best->ifa_addr, out->address, sizeof(out->address));
        out->why = list != NULL && *list != '\0' ? "LOCKSTEP_INTERFACE"
                   : by_default ? "the default route, because the endpoint's "
                                  "name is a loopback address on this host"
                                : "the route to the endpoint";
    }
    freeifaddrs(all);
    return status;
}

static bool first_address(struct sockaddr_storage *out)
{
    struct ifaddrs *all;
    bool found = false;
    if (getifaddrs(&all) != 0)
        return false;
    for (const struct ifaddrs *a = all; a != NULL && !found; a = a->ifa_next) {
        if (a->ifa_addr == NULL || a->ifa_addr->sa_family != AF_INET ||
            (a->ifa_flags & IFF_UP) == 0 || (a->ifa_flags & IFF_LOOPBACK) != 0)
            continue;
        memcpy(out, a->ifa_addr, sizeof(struct sockaddr_in));
        found = true;
    }
    freeifaddrs(all);
    return found;
}

void lsi_interface_address(char *text, size_t bytes)
{
    struct sockaddr_storage own = {.ss_family = AF_UNSPEC};
    snprintf(text, bytes, "%s", "");
    if (default_address(AF_INET, &own) || first_address(&own) ||
        default_address(AF_INET6, &own))
        lsi_address_print((const struct sockaddr *)&own, text, bytes);
}
