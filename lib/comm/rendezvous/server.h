/*
 * The server of the store: part of a loop that polls one descriptor. Beside
 * keys and values it carries messages between its owner and those who are
 * connected.
 *
 * Strangers can do little: until they have proved that they know the secret,
 * each may say 512 bytes within 3 seconds, and 256 of them may be there at
 * once; then the one that has been there longest goes.
 */
#ifndef LS_COMM_RENDEZVOUS_SERVER_H
#define LS_COMM_RENDEZVOUS_SERVER_H

#include "comm/rendezvous/endpoint.h"
#include "comm/rendezvous/store.h"

typedef struct lsi_store_server lsi_store_server;

/*
 * Called by lsi_store_server_step. A peer is a small number, which is used
 * again after `gone`; that is called once for each of whom there was a message.
 */
typedef struct lsi_store_owner {
    void *context;
    void (*message)(void *context, int peer, const void *data, size_t bytes);
    void (*gone)(void *context, int peer, const char *why);
} lsi_store_owner;

typedef enum lsi_store_refusal {
    LSI_STORE_SERVED,    /* this is the server */
    LSI_STORE_BUSY,      /* somebody serves there, perhaps of the same job */
    LSI_STORE_ELSEWHERE, /* no address of this machine */
    LSI_STORE_FAILED
} lsi_store_refusal;

/*
 * Listens at an endpoint; port 0 means one that is free. `secret` must outlive
 * the server; without one (NULL) only loopback addresses are listened at, and
 * any other endpoint is an error that says how to have one. A connection has
 * failed when the other host has been silent for 2 * `seconds`. *why says what
 * kind of error it is.
 */
ls_status lsi_store_serve(const lsi_endpoint *endpoint, const char *secret,
                          double seconds, const lsi_store_owner *owner,
                          lsi_store_server **out, lsi_store_refusal *why);
void lsi_store_server_close(lsi_store_server *server);

/* To be polled for reading; step when it is ready. */
int lsi_store_server_fd(const lsi_store_server *server);
void lsi_store_server_step(lsi_store_server *server);

int lsi_store_server_port(const lsi_store_server *server);

/* One that cannot be reached any more is told by `gone`. */
void lsi_store_server_send(lsi_store_server *server, int peer, const void *data,
                           size_t bytes);

/* Tells a peer why it is not wanted, and parts. `gone` is not called. */
void lsi_store_server_refuse(lsi_store_server *server, int peer,
                             const char *why);

/* Forgets all keys. */
void lsi_store_server_clear(lsi_store_server *server);

#endif
