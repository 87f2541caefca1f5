/*
 * What the server's files share.
 */
#ifndef LS_COMM_RENDEZVOUS_SERVER_STATE_H
#define LS_COMM_RENDEZVOUS_SERVER_STATE_H

#include <stdint.h>

#include "comm/rendezvous/endpoint.h"
#include "comm/rendezvous/handshake.h"
#include "comm/rendezvous/link.h"
#include "comm/rendezvous/server.h"
#include "comm/rendezvous/values.h"

/* A peer that has left so much unread is heard no more. */
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
    bool is_owners;   /* has sent a message: its end is told */
    bool is_answered; /* its wait is over: it may have asked for more since */
    lsi_link link;
    lsi_handshake shake;
    double until;     /* of a stranger, of one that waits or ends; 0: never */
    uint32_t watched; /* events of epoll */
    unsigned char origin[8]; /* of its address; IPv6: the network */
    char why[160];
    char key[LSI_STORE_KEY_BYTES + 1]; /* that it waits for */
} lsi_store_peer;

struct lsi_store_server {
    const char *secret;
    double seconds;
    lsi_store_owner owner;
    int epoll, listener, timer;
    bool is_ticking, is_deaf; /* deaf: no descriptors left to accept with */
    bool has_answered;        /* a peer that is_answered */
    lsi_store_peer **peers;
    int n_peers; /* slots */
    lsi_store_values values;
};

/* The socket of the rendezvous; see lsi_store_serve. */
ls_status lsi_store_listen(const lsi_endpoint *endpoint, bool has_secret,
                           int *out, lsi_store_refusal *why);

/* Takes what it has said so far. */
void lsi_store_peer_take(lsi_store_server *server, int number);

/* Takes what those have said meanwhile whose wait is over. */
void lsi_store_take_answered(lsi_store_server *server);

/* Says why, and ends. */
void lsi_store_peer_refuse(lsi_store_peer *peer, const char *why);

/* The connection is closed at the end of the step. */
void lsi_store_peer_break(lsi_store_peer *peer, const char *why);

/* It has waited for its key as long as it wanted to. */
void lsi_store_peer_late(lsi_store_server *server, int number);

/* Has epoll look for what it may do now. */
void lsi_store_peer_watch(lsi_store_server *server, int number);

#endif
