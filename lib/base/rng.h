/*
 * Counter-based random numbers (Philox 4x32-10; Salmon et al., SC 2011). The
 * value at (key, counter) is a pure function. So streams need no state and do
 * not depend on the number of ranks, threads or vector lanes.
 */
#ifndef LS_BASE_RNG_H
#define LS_BASE_RNG_H

#include <stdint.h>

#include "base/mix64.h"

typedef struct lsi_rng_key {
    uint64_t seed, stream;
} lsi_rng_key;

/*
 * Philox's 64-bit key. For one seed every stream gets another key; stream 0 is
 * Philox under the seed itself.
 */
static inline uint64_t lsi_rng_philox_key(lsi_rng_key key)
{
    return key.seed + lsi_mix64(key.stream);
}

/*
 * Four 32-bit values for (key, block, sub): Philox under lsi_rng_philox_key
 * with the counter block (low word, high word), sub (low word, high word).
 */
void lsi_rng_block(lsi_rng_key key, uint64_t block, uint64_t sub,
                   uint32_t out[4]);

/* In [0, 1) with 24 bits, from one 32-bit value. */
static inline float lsi_rng_unit_f32(uint32_t bits)
{
    return (float)(bits >> 8) * 0x1p-24F;
}

/*
 * Element i of the stream (key, sub): u32, [0,1) double, N(0,1) double. u32 is
 * lane i % 4 of block i / 4. These are views of the same blocks: what must be
 * independent needs another stream or sub.
 */
uint32_t lsi_rng_u32(lsi_rng_key key, uint64_t sub, uint64_t i);
double lsi_rng_uniform(lsi_rng_key key, uint64_t sub, uint64_t i);
double lsi_rng_normal(lsi_rng_key key, uint64_t sub, uint64_t i);

/* In [0, bound), unbiased; bound >= 1. */
uint64_t lsi_rng_below(lsi_rng_key key, uint64_t sub, uint64_t i,
                       uint64_t bound);

#endif
