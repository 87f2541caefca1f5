/*
 * The parts of the module over UCX: who the peers are and which of them are
 * lost (ucx_peers.c), joining and leaving them (ucx_meet.c), and messages
 * (ucx.c). Everything is called by one thread at a time.
 */
#ifndef LS_COMM_NET_UCX_UCX_H
#define LS_COMM_NET_UCX_UCX_H

#include <stddef.h>
#include <stdint.h>

#include <ucp/api/ucp.h>

#include "comm/state/wire.h"

typedef struct lsi_ucx_peer {
    ucp_address_t *address;
    ucp_ep_h ep;       /* NULL: there was no reason to connect yet */
    ucs_status_t lost; /* why it is out of reach */
    uint64_t lost_ns;  /* since when; 0: it is not */
} lsi_ucx_peer;

typedef struct lsi_ucx_state {
    int rank, size;
    ucp_context_h context;
    ucp_worker_h worker; /* NULL: the wire is not open */
    lsi_ucx_peer *peer;  /* by rank */
    int lost;            /* how many peers are */
    int stuck; /* UCX would write where memory is not its own any more */
    char library[LSI_WIRE_LIBRARY_BYTES];
    lsi_wire_start start;
} lsi_ucx_state;

extern lsi_ucx_state lsi_ucx;

/* Leaves a sentence. Returns the result, which is no success. */
int lsi_ucx_refuse(int result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same with what UCX says, if that is no success; or 0. */
int lsi_ucx_check(ucs_status_t status, const char *what);

/* ---- peers --------------------------------------------------------------- */

/* Makes the peer's endpoint if there is none; or the peer is lost. */
void lsi_ucx_connect(int rank);

/* UCX has refused a message to the peer. */
void lsi_ucx_lose(int rank, ucs_status_t why);

/* Whether the library may be told that the peer is lost; see ucx_peers.c. */
int lsi_ucx_may_tell_lost(int rank);

/* Leaves the sentence about it: -1. */
int lsi_ucx_tell_lost(int rank);

/* ---- the wire's functions ------------------------------------------------ */

/* What UCX keeps with each of its requests for us. */
typedef struct lsi_ucx_request {
    int done;
    int peer; /* LSI_WIRE_ANYBODY, too */
    ucs_status_t status;
    uint64_t bytes;
} lsi_ucx_request;

int lsi_ucx_open(const lsi_wire_start *start, int *rank, int *size);
void lsi_ucx_close(void);

#endif
