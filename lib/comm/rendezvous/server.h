/*
 * The server of the store: part of a loop that polls one descriptor. In
 * addition to keys and values it carries messages between its owner and
 * connected peers.
 *
 * Strangers can do little before they have proved that they know the secret.
 * Each may send 512 bytes within 3 seconds. At most 256 of them may be
 * connected; the oldest connection makes room for the next one.
 */
#ifndef LS_COMM_RENDEZVOUS_SERVER_H
#define LS_COMM_RENDEZVOUS_SERVER_H

#include "comm/rendezvous/endpoint.h"
#include "comm/rendezvous/store.h"

typedef struct lsi_store_server lsi_store_server;

/*
 * Called by lsi_store_server_step. A peer is a small number, which is used
 * again after `gone`; that is called once for each peer that has sent a
 * message.
 */
typedef struct lsi_store_owner {
    void *context;
    void (*message)(void *context, int peer, const void *data, size_t bytes);
    void (*gone)(void *context, int peer, const char *why);
} lsi_store_owner;

typedef enum lsi_store_refusal {
    LSI_STORE_SERVED,    /* this is the server */
    LSI_STORE_BUSY,      /* port in use, perhaps by the same job */
    LSI_STORE_ELSEWHERE, /* not an address of this machine */
    LSI_STORE_FAILED
} lsi_store_refusal;

/*
 * Listens at an endpoint; port 0 means a free one. `secret` must outlive the
 * server. Without one (NULL) the server listens at loopback addresses only, and
 * any other endpoint is an error that says how to set a secret. A connection
 * has failed when the other host has been silent for 2 * `seconds`. *why is the
 * kind of the error.
 */
ls_status lsi_store_serve(const lsi_endpoint *endpoint, const char *secret,
                          double seconds, const lsi_store_owner *owner,
                          lsi_store_server **out, lsi_store_refusal *why);
void lsi_store_server_close(lsi_store_server *server);

/* To be polled for reading; step when it is ready. */
int lsi_store_server_fd(const lsi_store_server *server);
void lsi_store_server_step(lsi_store_server *server);

int lsi_store_server_port(const lsi_store_server *server);

/* Sends to a peer; `gone` reports one that cannot be reached any more. */
void lsi_store_server_send(lsi_store_server *server, int peer, const void *data,
                           size_t bytes);

/* Sends a peer the reason of its refusal and parts. `gone` is not called. */
void lsi_store_server_refuse(lsi_store_server *server, int peer,
                             const char *why);

/* Forgets all keys. */
void lsi_store_server_clear(lsi_store_server *server);

#endif
