/*
 * The words in which attention/ is written in plain C: vectors of one lane. See
 * avx512/vector.h. The other kernels of this level are loops, not words.
 */
#ifndef LS_ARRAY_KERNELS_REF_VECTOR_H
#define LS_ARRAY_KERNELS_REF_VECTOR_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/half.h"

#define INLINE static inline __attribute__((always_inline, unused))
#define LANES  ((size_t)1)

#define PRODUCT_ROWS 4
#define PRODUCT_VECS 4

typedef float vf;

INLINE uint32_t bits_of(vf x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

INLINE vf vf_of(uint32_t bits)
{
    vf x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

INLINE vf vf_load(const void *p, size_t m)
{
    vf x;
    (void)m;
    memcpy(&x, p, sizeof x);
    return x;
}

INLINE void vf_store(float *p, vf x, size_t m)
{
    (void)m;
    *p = x;
}

INLINE vf vf_set(float x)
{
    return x;
}

/* Rounded twice, other than those of the vectors. */
INLINE vf vf_fma(vf a, vf b, vf c)
{
    return a * b + c;
}

/*
 * In double, because a product and the number that softmax subtracts are large
 * and near each other.
 */
INLINE vf vf_fms(vf a, vf b, vf c)
{
    return (vf)((double)a * (double)b - (double)c);
}

INLINE vf vf_mul(vf a, vf b)
{
    return a * b;
}

INLINE vf vf_add(vf a, vf b)
{
    return a + b;
}

INLINE vf vf_sub(vf a, vf b)
{
    return a - b;
}

INLINE vf vf_max(vf a, vf b)
{
    return a > b ? a : b;
}

INLINE vf vf_add_exponent(vf x, vf n)
{
    return vf_of(bits_of(x) + (bits_of(n) << 23));
}

INLINE vf vf_fill_low(vf x, size_t n, float fill)
{
    return n > 0 ? fill : x;
}

INLINE vf vf_dot_pairs(vf sum, vf a, vf b)
{
    const uint32_t x = bits_of(a), y = bits_of(b);
    sum += vf_of(x << 16) * vf_of(y << 16);
    return sum + vf_of(x & 0xffff0000U) * vf_of(y & 0xffff0000U);
}

INLINE vf vf_pair(vf low, vf high)
{
    return vf_of(lsi_bf16_from_f32(low) | (uint32_t)lsi_bf16_from_f32(high)
                                              << 16);
}

INLINE vf vf_pair_bits(const uint16_t *low, const uint16_t *high)
{
    return vf_of(*low | (uint32_t)*high << 16);
}

INLINE vf vf_load_bf16_bits(const uint16_t *p, size_t m)
{
    (void)m;
    return lsi_bf16_to_f32(*p);
}

INLINE void vf_store_bf16(uint16_t *p, vf x, size_t m)
{
    (void)m;
    *p = lsi_bf16_from_f32(x);
}

INLINE void vf_transpose(vf r[1])
{
    (void)r;
}

#endif
