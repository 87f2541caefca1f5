/*
 * Random numbers on Random123's Philox. The views of a stream:
 *
 *   u32      element i is lane i % 4 of block i / 4
 *   uniform  element i is lanes 2 (i % 2) and the next of block i / 2
 *   normal   elements 2j and 2j + 1 are the Box-Muller pair of block j
 *   below    element i draws from block i, and from blocks that no other
 *            element uses if it has to draw again
 */
#include "base/rng.h"

#include <assert.h>
#include <math.h>

#include <Random123/philox.h>

#include "base/math.h"

typedef unsigned __int128 uint128;

static const double two_pi = 6.283185307179586476925286766559;

void lsi_rng_block(lsi_rng_key key, uint64_t block, uint64_t sub,
                   uint32_t out[4])
{
    const uint64_t mixed = lsi_rng_philox_key(key);
    const philox4x32_key_t philox_key = {
        {(uint32_t)mixed, (uint32_t)(mixed >> 32)}};
    const philox4x32_ctr_t counter = {{(uint32_t)block, (uint32_t)(block >> 32),
                                       (uint32_t)sub, (uint32_t)(sub >> 32)}};
    const philox4x32_ctr_t result = philox4x32_R(10, counter, philox_key);
    for (int i = 0; i < 4; i++)
        out[i] = result.v[i];
}

static uint64_t join(uint32_t low, uint32_t high)
{
    return (uint64_t)high << 32 | low;
}

/* In [0, 1) with 53 bits. */
static double unit_f64(uint64_t bits)
{
    return (double)(bits >> 11) * 0x1p-53;
}

uint32_t lsi_rng_u32(lsi_rng_key key, uint64_t sub, uint64_t i)
{
    uint32_t block[4];
    lsi_rng_block(key, i / 4, sub, block);
    return block[i % 4];
}

double lsi_rng_uniform(lsi_rng_key key, uint64_t sub, uint64_t i)
{
    uint32_t block[4];
    lsi_rng_block(key, i / 2, sub, block);
    const uint64_t lane = 2 * (i % 2);
    return unit_f64(join(block[lane], block[lane + 1]));
}

double lsi_rng_normal(lsi_rng_key key, uint64_t sub, uint64_t i)
{
    uint32_t block[4];
    lsi_rng_block(key, i / 2, sub, block);
    /* 1 - u is in (0, 1], so that the logarithm is finite. */
    const double u = 1.0 - unit_f64(join(block[0], block[1]));
    const double angle = two_pi * unit_f64(join(block[2], block[3]));
    const double radius = sqrt(-2.0 * lsi_ln(u));
    return radius * (i % 2 == 0 ? lsi_cos(angle) : lsi_sin(angle));
}

/*
 * The high word of bits * bound is uniform if products whose low word is below
 * 2^64 mod bound are drawn again.
 */
uint64_t lsi_rng_below(lsi_rng_key key, uint64_t sub, uint64_t i,
                       uint64_t bound)
{
    assert(bound >= 1);
    const uint64_t rejected = (0 - bound) % bound;
    for (uint64_t attempt = 0;; attempt++) {
        uint32_t block[4];
        /* Streams are shorter than 2^56, which leaves the top byte free. */
        lsi_rng_block(key, i + (attempt << 56), sub, block);
        for (int lane = 0; lane < 4; lane += 2) {
            const uint64_t bits = join(block[lane], block[lane + 1]);
            const uint128 product = (uint128)bits * bound;
            if ((uint64_t)product >= rejected)
                return (uint64_t)(product >> 64);
        }
    }
}
