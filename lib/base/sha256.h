/*
 * SHA-256 (FIPS 180-4), from a library that others maintain: one that uses the
 * instructions for SHA where the processor has them.
 */
#ifndef LS_BASE_SHA256_H
#define LS_BASE_SHA256_H

#include <stdbool.h>
#include <stddef.h>

enum { LSI_SHA256_BYTES = 32, LSI_SHA256_TEXT = 65 };

typedef struct lsi_sha256_piece {
    const void *data;
    size_t bytes;
} lsi_sha256_piece;

/* Whether this build has SHA-256. Without it the digests below are zeros. */
bool lsi_sha256_is_there(void);

/* The digest of `n` pieces, one after another. */
void lsi_sha256(const lsi_sha256_piece *pieces, size_t n,
                unsigned char out[LSI_SHA256_BYTES]);

/* The first `bytes` bytes of a digest as hexadecimal digits. */
static inline void lsi_sha256_text(const unsigned char *digest, size_t bytes,
                                   char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < bytes; i++) {
        out[2 * i] = digits[digest[i] >> 4];
        out[2 * i + 1] = digits[digest[i] & 15];
    }
    out[2 * bytes] = '\0';
}

#endif
