/*
 * The vector vocabulary of the attention tiles in plain C: vectors of one
 * lane. See tile.h for what each word means.
 */
#ifndef LS_KERNELS_ATTENTION_VEC_REF_H
#define LS_KERNELS_ATTENTION_VEC_REF_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/half.h"

#define V_LANES 1
#define V_ROWS  4
#define V_VECS  4

typedef float vec;

static inline uint32_t bits_of(vec x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline vec vec_of(uint32_t bits)
{
    vec x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline vec v_load(const void *p)
{
    vec x;
    memcpy(&x, p, sizeof x);
    return x;
}

static inline void v_store(float *p, vec x)
{
    *p = x;
}

static inline vec v_set1(float x)
{
    return x;
}

static inline vec v_fma(vec a, vec b, vec c)
{
    return a * b + c;
}

static inline vec v_fms(vec a, vec b, vec c)
{
    return a * b - c;
}

static inline vec v_mul(vec a, vec b)
{
    return a * b;
}

static inline vec v_add(vec a, vec b)
{
    return a + b;
}

static inline vec v_sub(vec a, vec b)
{
    return a - b;
}

static inline vec v_max(vec a, vec b)
{
    return a > b ? a : b;
}

static inline vec v_add_exponent(vec x, vec n)
{
    return vec_of(bits_of(x) + (bits_of(n) << 23));
}

static inline vec v_fill_low(vec x, int n, float fill)
{
    return n > 0 ? fill : x;
}

static inline vec v_dot_pairs(vec sum, vec a, vec b)
{
    const uint32_t x = bits_of(a), y = bits_of(b);
    sum += vec_of(x << 16) * vec_of(y << 16);
    return sum + vec_of(x & 0xffff0000U) * vec_of(y & 0xffff0000U);
}

static inline vec v_pair(vec low, vec high)
{
    return vec_of(lsi_bf16_from_f32(low) | (uint32_t)lsi_bf16_from_f32(high)
                                               << 16);
}

static inline vec v_pair_bits(const uint16_t *low, const uint16_t *high)
{
    return vec_of(*low | (uint32_t)*high << 16);
}

static inline vec v_load_bf16(const uint16_t *p)
{
    return lsi_bf16_to_f32(*p);
}

static inline void v_store_bf16(uint16_t *p, vec x)
{
    *p = lsi_bf16_from_f32(x);
}

static inline void v_transpose(float *dst, size_t ld, const vec rows[1])
{
    (void)ld;
    *dst = rows[0];
}

#endif
