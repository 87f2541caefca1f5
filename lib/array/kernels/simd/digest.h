/* Digests of memory, in the compiler's own vectors: integers need no others. */
#ifndef LS_ARRAY_KERNELS_SIMD_DIGEST_H
#define LS_ARRAY_KERNELS_SIMD_DIGEST_H

#include "array/kernels/simd/words.h"
#include "base/mix64.h"

enum { DIGEST_WORDS = LANES / 2, DIGEST_SUMS = 2 };

typedef uint64_t digest_words
    __attribute__((vector_size(DIGEST_WORDS * sizeof(uint64_t))));

/* *sum += lsi_mix64(word + *key); the keys then move on to the next words. */
INLINE void digest_step(digest_words *sum, digest_words *key,
                        const unsigned char *data)
{
    digest_words x;
    memcpy(&x, data, sizeof(x));
    x += *key;
    x = (x ^ (x >> 30)) * LSI_MIX64_A;
    x = (x ^ (x >> 27)) * LSI_MIX64_B;
    *sum += x ^ (x >> 31);
    *key += DIGEST_SUMS * DIGEST_WORDS * LSI_DIGEST_STEP;
}

void LSI_SIMD(digest)(uint64_t *out, const void *data, size_t n, uint64_t first)
{
    enum { STEP = DIGEST_SUMS * DIGEST_WORDS };
    const unsigned char *const bytes = data;
    digest_words sum[DIGEST_SUMS] = {0}, key[DIGEST_SUMS];
    uint64_t total;
    size_t i = 0;
    for (int s = 0; s < DIGEST_SUMS; s++)
        for (int w = 0; w < DIGEST_WORDS; w++)
            key[s][w] = (first + (uint64_t)(s * DIGEST_WORDS + w) + 1) *
                        LSI_DIGEST_STEP;
    for (; i + STEP <= n; i += STEP)
        for (int s = 0; s < DIGEST_SUMS; s++)
            digest_step(&sum[s], &key[s],
                        bytes + (i + (size_t)(s * DIGEST_WORDS)) *
                                    sizeof(uint64_t));
    lsi_ref_digest(&total, bytes + i * sizeof(uint64_t), n - i, first + i);
    for (int s = 0; s < DIGEST_SUMS; s++)
        for (int w = 0; w < DIGEST_WORDS; w++)
            total += sum[s][w];
    *out = total;
}

#endif
