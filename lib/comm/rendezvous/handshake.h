/* clang-format off */
/*
 * How two that have connected learn whether they know the same secret, which
 * never travels:
 *
 *     client                         server
 *     HELLO   32 random bytes  -->
 *                              <--   CHALLENGE  whether a secret is asked for;
 *                                               32 other random bytes
 *     PROOF   HMAC of both     -->
 *                              <--   WELCOME    another HMAC of both
 *
 * The client proves it first, so who only looks at the port learns nothing.
 * Each proof names its side and covers both random values, so none can be sent
 * back or used again. Without a secret only loopback addresses may meet, both
 * sides check that the other one is of the same user (same_user.h), and the
 * proofs are zeros; a side that has one does not do without.
 *
 * It says who meets. What they say afterwards is neither hidden nor signed: a
 * network in which somebody changes packets on their way is none for this.
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

/* The client says HELLO. `secret` stays the caller's and must stay there. */
ls_status lsi_handshake_begin(lsi_handshake *shake, bool is_server,
                              const char *secret, lsi_link *link);

/*
 * Takes the next frame of it; is_done once the other side is known, and larger
 * frames may come. Errors: LS_ERR_MISMATCH (secrets), LS_ERR_FORMAT. A server
 * has then told the client why; a client repeats what it was told.
 */
ls_status lsi_handshake_take(lsi_handshake *shake, lsi_link *link,
                             const lsi_frame *frame);

#endif
