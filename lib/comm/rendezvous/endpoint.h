/*
 * HOST:PORT, and the addresses behind it.
 */
#ifndef LS_COMM_RENDEZVOUS_ENDPOINT_H
#define LS_COMM_RENDEZVOUS_ENDPOINT_H

#include <netdb.h>
#include <stdbool.h>

#include "lockstep/status.h"

typedef struct lsi_endpoint {
    char host[256]; /* a name, an address, [an IPv6 address] without brackets */
    int port;       /* 0: none was given */
} lsi_endpoint;

enum { LSI_ENDPOINT_BYTES = 300 };

/* "h0:29400", "10.0.0.1:29400", "[fd00::1]:29400", "h0". */
ls_status lsi_endpoint_parse(const char *text, lsi_endpoint *out);

/* As text, with the port. */
void lsi_endpoint_print(const lsi_endpoint *endpoint,
                        char out[LSI_ENDPOINT_BYTES]);

/* *out is freed by freeaddrinfo. LS_ERR_ARGUMENT for an unknown host. */
ls_status lsi_endpoint_resolve(const lsi_endpoint *endpoint,
                               struct addrinfo **out);

bool lsi_address_is_loopback(const struct sockaddr *address);

/* Whether the name itself means this machine only: localhost, 127.0.0.1. */
bool lsi_endpoint_is_local(const lsi_endpoint *endpoint);

/* Whether the other side of a connection has a loopback address. */
bool lsi_socket_is_loopback(int fd);

int lsi_address_port(const struct sockaddr *address);

/* The number of an address, as text; "?" if it has none. */
void lsi_address_print(const struct sockaddr *address, char *out, size_t bytes);

#endif
