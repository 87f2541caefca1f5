/* clang-format off */
/*
 * How two connected sides verify that they know the same secret, which never
 * travels:
 *
 *     client                         server
 *     HELLO   32 random bytes  -->
 *                              <--   CHALLENGE  whether a secret is asked for;
 *                                               32 other random bytes
 *     PROOF   HMAC of both     -->
 *                              <--   WELCOME    another HMAC of both
 *
 * The client proves its knowledge first, so a port scanner learns nothing. Each
 * proof names its side and covers both random values, so it cannot be sent back
 * or used again.
 *
 * Without a secret, only loopback addresses may connect, and both sides check
 * that the other one is of the same user (same_user.h). The proofs are zeros
 * then. A side that has a secret does not connect without it.
 *
 * The handshake authenticates the two sides. The frames after it are neither
 * encrypted nor signed: do not use the store on a network in which an attacker
 * can change packets in flight.
 */
/* clang-format on */
#ifndef LS_COMM_RENDEZVOUS_HANDSHAKE_H
#define LS_COMM_RENDEZVOUS_HANDSHAKE_H

#include "comm/rendezvous/hmac.h"
#include "comm/rendezvous/link.h"

typedef struct lsi_handshake {
    const char *secret; /* NULL: none */
    bool is_server;
    bool is_done;
    int step; /* frames that came */
    unsigned char client[LSI_HMAC_BYTES], server[LSI_HMAC_BYTES]; /* random */
} lsi_handshake;

/* The client sends HELLO. `secret` stays the caller's and must stay valid. */
ls_status lsi_handshake_begin(lsi_handshake *shake, bool is_server,
                              const char *secret, lsi_link *link);

/*
 * Handles the next frame of the handshake. is_done is set once the other side
 * is verified, and larger frames may come. Errors: LS_ERR_MISMATCH (secrets),
 * LS_ERR_FORMAT. A server has then sent the reason to the client; a client
 * repeats the reason that it was sent.
 */
ls_status lsi_handshake_handle(lsi_handshake *shake, lsi_link *link,
                               const lsi_frame *frame);

#endif
