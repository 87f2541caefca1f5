/*
 * The words of attention/ in plain C, vectors of one lane: see avx512/vector.h.
 * The other kernels of this level are loops. With EXACT_WORDS the words give
 * the bits of other levels' lanes, for portable/wide.h.
 */
#ifndef LS_ARRAY_KERNELS_REF_VECTOR_H
#define LS_ARRAY_KERNELS_REF_VECTOR_H

#include <math.h>
#include <stdbool.h>
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
    vf x = 0.0F;
    memcpy(&x, p, m * sizeof x);
    return x;
}

INLINE void vf_store(float *p, vf x, size_t m)
{
    memcpy(p, &x, m * sizeof x);
}

INLINE vf vf_set(float x)
{
    return x;
}

#ifdef EXACT_WORDS
INLINE vf vf_fma(vf a, vf b, vf c)
{
    return fmaf(a, b, c);
}

INLINE vf vf_fms(vf a, vf b, vf c)
{
    return fmaf(a, b, -c);
}
#else
/* Rounded twice, other than those of the vectors: fmaf is slow. */
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
#endif

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
    return m > 0 ? lsi_bf16_to_f32(*p) : 0.0F;
}

INLINE vf vf_load_f16(const uint16_t *p, size_t m)
{
    return m > 0 ? lsi_f16_to_f32(*p) : 0.0F;
}

INLINE void vf_store_bf16(uint16_t *p, vf x, size_t m)
{
    if (m > 0)
        *p = lsi_bf16_from_f32(x);
}

INLINE void vf_transpose(vf r[1])
{
    (void)r;
}

/* ---- words that attention does not use ------------------------------------
 */
typedef double vd;
typedef bool vm;

INLINE vf vf_load_or(const float *p, size_t m, vf rest)
{
    return m > 0 ? *p : rest;
}

INLINE vf vf_div(vf a, vf b)
{
    return a / b;
}

INLINE vf vf_sqrt(vf a)
{
    return sqrtf(a);
}

INLINE vf vf_fnma(vf a, vf b, vf c)
{
    return fmaf(-a, b, c);
}

INLINE vf vf_min(vf a, vf b)
{
    return a < b ? a : b;
}

INLINE vf vf_round(vf a)
{
    return rintf(a);
}

/* For n in -126..127. */
INLINE vf vf_scale_2(vf a, vf n)
{
    return a * vf_of((uint32_t)((int)n + 127) << 23);
}

/* e with 2^e <= x < 2^(e + 1), of a normal x above 0. */
INLINE vf vf_exponent(vf x)
{
    return (vf)((int)(bits_of(x) >> 23) - 127);
}

INLINE vm vf_gt(vf a, vf b)
{
    return a > b;
}

INLINE vm vf_is_nan(vf a)
{
    return isnan(a);
}

INLINE vf vf_select(vm m, vf yes, vf no)
{
    return m ? yes : no;
}

INLINE float vf_sum(vf a)
{
    return a;
}

INLINE float vf_max_lane(vf a)
{
    return a;
}

INLINE vd vd_zero(void)
{
    return 0.0;
}

INLINE vd vd_add(vd a, vd b)
{
    return a + b;
}

INLINE vd vd_sub(vd a, vd b)
{
    return a - b;
}

INLINE vd vd_fma(vd a, vd b, vd c)
{
    return fma(a, b, c);
}

INLINE double vd_sum(vd a)
{
    return a;
}

#endif
