/*
 * The parts of the module over UCX: starting it (ucx_start.c), the peers and
 * which of them are lost (ucx_peers.c), leaving them (ucx_leave.c), messages
 * (ucx.c). A process has one worker, which all of its groups use. One thread at
 * a time makes all calls.
 */
#ifndef LS_COMM_NET_UCX_UCX_H
#define LS_COMM_NET_UCX_UCX_H

#include <stddef.h>
#include <stdint.h>

#include <ucp/api/ucp.h>

#include "comm/state/wire.h"

/* A process's card for the others; UCX's address follows it. */
typedef struct lsi_ucx_card {
    uint64_t process; /* a number that no other process has */
    unsigned char address[];
} lsi_ucx_card;

typedef struct lsi_ucx_peer {
    lsi_ucx_card *card;
    ucp_ep_h ep;       /* NULL: not needed so far */
    ucs_status_t lost; /* the reason of the loss */
    uint64_t lost_ns;  /* time of the loss in ns; 0: not lost */
    int holds;         /* ranks of groups that are this process */
    int leaves;        /* it has announced its end */
    int announced;     /* it has been sent an announcement or an answer */
} lsi_ucx_peer;

typedef struct lsi_ucx_state {
    ucp_context_h context;
    ucp_worker_h worker; /* NULL: the wire is not open */
    lsi_ucx_card *card;  /* this process's own */
    size_t card_bytes;
    lsi_ucx_peer **peer; /* by number; NULL: unused */
    int peers;
    int stuck; /* UCX would write to memory that it does not own any more */
    char library[LSI_WIRE_LIBRARY_BYTES];
} lsi_ucx_state;

extern lsi_ucx_state lsi_ucx;

/* Sets the error text. Returns the result, which is not a success. */
int lsi_ucx_refuse(int result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* As lsi_ucx_refuse, with UCX's text, for a failed status; else 0. */
int lsi_ucx_check(ucs_status_t status, const char *what);

/* ---- peers --------------------------------------------------------------- */

/* Makes the peer's endpoint if it has none; on failure the peer is lost. */
void lsi_ucx_connect(lsi_ucx_peer *peer);

/* Ends the connection; UCX gives up the messages in flight. */
void lsi_ucx_disconnect(lsi_ucx_peer *peer);

/* UCX has refused a message to the peer. */
void lsi_ucx_lose(lsi_ucx_peer *peer, ucs_status_t why);

/* Whether the library may be told that the peer is lost; see ucx_peers.c. */
int lsi_ucx_may_report_lost(const lsi_ucx_peer *peer);

/* Sets the error text for the lost peer: -1. */
int lsi_ucx_report_lost(const lsi_ucx_peer *peer);

/* ---- leaving ------------------------------------------------------------- */

/* The low bits of a tag that no group has: a process says that it leaves. */
#define LSI_UCX_TAG_LEAVES UINT32_MAX

/* Called once the worker exists: 0, or a refusal. */
int lsi_ucx_listen(void);

/* Moves all messages, and answers processes that leave. */
void lsi_ucx_progress(void);

/* ---- the wire's functions ------------------------------------------------ */

/* The part of each UCX request that is for the module. */
typedef struct lsi_ucx_request {
    int done;
    int peer; /* LSI_WIRE_ANYBODY, too */
    ucs_status_t status;
    uint64_t bytes;
    void *owned; /* the send's bytes, freed when it is over; or NULL */
    void (*release)(void *);
    int dropped; /* nobody waits for it any more */
} lsi_ucx_request;

int lsi_ucx_open(const lsi_wire_start *start, lsi_wire_opened *out);
int lsi_ucx_meet(const void *addresses, size_t bytes, int size, int *peer);
void lsi_ucx_hold(const int *peer, int size);
void lsi_ucx_let_go(const int *peer, int size);
void lsi_ucx_retire(int first, int tags);
void lsi_ucx_close(void);

#endif
