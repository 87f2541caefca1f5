/*
 * HMAC-SHA-256 (RFC 2104), from a library that others maintain.
 */
#ifndef LS_COMM_RENDEZVOUS_HMAC_H
#define LS_COMM_RENDEZVOUS_HMAC_H

#include <stdbool.h>
#include <stddef.h>

enum { LSI_HMAC_BYTES = 32 };

/* Whether this build has HMAC. Without it all ranks must be on one machine. */
bool lsi_hmac_is_there(void);

/* The HMAC of `n` pieces, one after the other. */
typedef struct lsi_hmac_piece {
    const void *data;
    size_t bytes;
} lsi_hmac_piece;
void lsi_hmac(const char *secret, const lsi_hmac_piece *pieces, size_t n,
              unsigned char out[LSI_HMAC_BYTES]);

/* Takes the same time, wherever the two differ. */
bool lsi_hmac_equal(const unsigned char a[LSI_HMAC_BYTES],
                    const unsigned char b[LSI_HMAC_BYTES]);

#endif
