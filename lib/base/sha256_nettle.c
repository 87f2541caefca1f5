/* By nettle, on which GnuTLS builds. */
#include "base/sha256.h"

#include <nettle/sha2.h>

bool lsi_sha256_is_there(void)
{
    return true;
}

void lsi_sha256(const lsi_sha256_piece *pieces, size_t n,
                unsigned char out[LSI_SHA256_BYTES])
{
    struct sha256_ctx state;
    sha256_init(&state);
    for (size_t i = 0; i < n; i++)
        sha256_update(&state, pieces[i].bytes, pieces[i].data);
    sha256_digest(&state, LSI_SHA256_BYTES, out);
}
