/*
 * Dropout: a vector of blocks of Philox 4x32-10 at a time (the constants are
 * those of Salmon et al., SC 2011), bit for bit those of lsi_rng_u32.
 *
 * The four words of a block are in the low halves of 64-bit lanes, where the
 * products are computed; the high halves do not matter.
 */
#ifndef LS_ARRAY_KERNELS_SIMD_DROPOUT_H
#define LS_ARRAY_KERNELS_SIMD_DROPOUT_H

#include "array/kernels/simd/words.h"

enum { PHILOX_ROUNDS = 10, DROPOUT_CHUNK = 512 };

typedef struct philox_keys {
    vi low[PHILOX_ROUNDS], high[PHILOX_ROUNDS];
} philox_keys;

INLINE philox_keys make_philox_keys(lsi_rng_key key)
{
    const uint64_t start = lsi_rng_philox_key(key);
    uint32_t low = (uint32_t)start;
    uint32_t high = (uint32_t)(start >> 32);
    philox_keys keys;
    for (int i = 0; i < PHILOX_ROUNDS; i++) {
        keys.low[i] = vi_set_64(low);
        keys.high[i] = vi_set_64(high);
        low += 0x9E3779B9U;
        high += 0xBB67AE85U;
    }
    return keys;
}

/* 2 * LANES values: those of LANES / 2 blocks. */
INLINE void philox(uint32_t *out, const philox_keys *keys, uint64_t block,
                   uint64_t sub)
{
    const vi times_0 = vi_set_64(0xD2511F53U);
    const vi times_2 = vi_set_64(0xCD9E8D57U);
    vi c0 = vi_add_64(vi_set_64(block), vi_group_order());
    vi c1 = vi_high_half(c0);
    vi c2 = vi_set_64(sub);
    vi c3 = vi_high_half(c2);
    for (int i = 0; i < PHILOX_ROUNDS; i++) {
        const vi product_0 = vi_multiply_low(c0, times_0);
        const vi product_2 = vi_multiply_low(c2, times_2);
        c0 = vi_xor3(vi_high_half(product_2), c1, keys->low[i]);
        c1 = product_2;
        c2 = vi_xor3(vi_high_half(product_0), c3, keys->high[i]);
        c3 = product_0;
    }
    vi first, second;
    vi_group(vi_pair(c0, c1), vi_pair(c2, c3), &first, &second);
    vi_store(out, first);
    vi_store(out + LANES, second);
}

/* At most DROPOUT_CHUNK elements. */
INLINE void dropout_chunk(float *y, const float *x, size_t n,
                          const philox_keys *keys, uint64_t sub, uint64_t first,
                          uint32_t threshold, float factor)
{
    uint32_t bits[DROPOUT_CHUNK + 4 * LANES];
    const size_t skip = first % 4; /* of the first block */
    for (size_t done = 0; done < skip + n; done += 2 * LANES)
        philox(bits + done, keys, first / 4 + done / 4, sub);
    const vi limit = vi_set(threshold);
    const vf f = vf_set(factor);
    FOR_LANES(n, {
        const vm keep = vi_ge_unsigned(vi_load(bits + skip + i, m), limit);
        vf_store(y + i, vf_keep(keep, vf_mul(vf_load(x + i, m), f)), m);
    });
}

void LSI_SIMD(dropout)(float *y, const float *x, size_t n, lsi_rng_key key,
                       uint64_t sub, uint64_t first, uint32_t threshold,
                       float factor)
{
    const philox_keys keys = make_philox_keys(key);
    for (size_t done = 0; done < n; done += DROPOUT_CHUNK)
        dropout_chunk(y + done, x + done, smaller(n - done, DROPOUT_CHUNK),
                      &keys, sub, first + done, threshold, factor);
}

#endif
