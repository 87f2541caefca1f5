/*
 * The state that the server's files share.
 */
#ifndef LS_COMM_RENDEZVOUS_SERVER_STATE_H
#define LS_COMM_RENDEZVOUS_SERVER_STATE_H

#include <stdint.h>

#include "comm/rendezvous/endpoint.h"
#include "comm/rendezvous/handshake.h"
#include "comm/rendezvous/link.h"
#include "comm/rendezvous/server.h"
#include "comm/rendezvous/values.h"

/* Unread bytes at which the server stops reading from a peer. */
enum { LSI_PEER_FULL_BYTES = 4 * LSI_STORE_VALUE_BYTES };
#define LSI_STRANGER_SECONDS 3.0

typedef enum lsi_peer_state {
    LSI_PEER_STRANGER, /* in the handshake */
    LSI_PEER_OPEN,
    LSI_PEER_WAITING, /* for a key */
    LSI_PEER_ENDING,  /* has been refused, and is to read why */
    LSI_PEER_BROKEN   /* to be closed */
} lsi_peer_state;

typedef struct lsi_store_peer {
    lsi_peer_state state;
    bool is_owners;   /* has sent a message: its end is reported */
    bool is_answered; /* wait is over; may have sent more requests */
    lsi_link link;
    lsi_handshake shake;
    double until;     /* deadline of a stranger, a wait or an end; 0: none */
    uint32_t watched; /* epoll's events */
    unsigned char origin[8]; /* part of the address; IPv6: network */
    char why[160];
    char key[LSI_STORE_KEY_BYTES + 1]; /* the awaited key */
} lsi_store_peer;

struct lsi_store_server {
    const char *secret;
    double seconds;
    lsi_store_owner owner;
    int epoll, listener, timer;
    bool is_ticking, is_deaf; /* deaf: out of descriptors to accept */
    bool has_answered;        /* any peer is_answered */
    lsi_store_peer **peers;
    int n_peers; /* number of slots */
    lsi_store_values values;
};

/* The socket of the rendezvous; see lsi_store_serve. */
ls_status lsi_store_listen(const lsi_endpoint *endpoint, bool has_secret,
                           int *out, lsi_store_refusal *why);

/* Handles the frames that a peer has sent so far. */
void lsi_store_peer_handle(lsi_store_server *server, int number);

/* Handles the frames that peers have sent during a wait that is over. */
void lsi_store_serve_answered(lsi_store_server *server);

/* Sends the reason, and ends the connection. */
void lsi_store_peer_refuse(lsi_store_peer *peer, const char *why);

/* Closes the connection at the end of the step. */
void lsi_store_peer_break(lsi_store_peer *peer, const char *why);

/* Ends a wait for a key, whose time is up. */
void lsi_store_peer_late(lsi_store_server *server, int number);

/* Sets the events for which epoll watches the peer. */
void lsi_store_peer_watch(lsi_store_server *server, int number);

#endif
