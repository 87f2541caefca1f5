/* By nettle, on which GnuTLS builds. */
#include "comm/rendezvous/hmac.h"

#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <string.h>

bool lsi_hmac_is_there(void)
{
    return true;
}

void lsi_hmac(const char *secret, const lsi_hmac_piece *pieces, size_t n,
              unsigned char out[LSI_HMAC_BYTES])
{
    struct hmac_sha256_ctx state;
    hmac_sha256_set_key(&state, strlen(secret), (const uint8_t *)secret);
    for (size_t i = 0; i < n; i++)
        hmac_sha256_update(&state, pieces[i].bytes, pieces[i].data);
    hmac_sha256_digest(&state, LSI_HMAC_BYTES, out);
}

bool lsi_hmac_equal(const unsigned char a[LSI_HMAC_BYTES],
                    const unsigned char b[LSI_HMAC_BYTES])
{
    return nettle_memeql_sec(a, b, LSI_HMAC_BYTES) != 0;
}
