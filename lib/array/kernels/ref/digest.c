/* Digests of memory. */
#include <string.h>

#include "array/kernels/ref/ref.h"
#include "base/mix64.h"

void lsi_ref_digest(uint64_t *out, const void *data, size_t n, uint64_t first)
{
    const unsigned char *const bytes = data;
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t word;
        memcpy(&word, bytes + i * sizeof(word), sizeof(word));
        sum += lsi_mix64(word + (first + i + 1) * LSI_DIGEST_STEP);
    }
    *out = sum;
}
