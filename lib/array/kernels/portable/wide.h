/*
 * The words of simd/ and attention/ for vectors of 16 lanes, made of the
 * narrower vectors of the vector.h that was included before. So all levels have
 * the 16 lanes of AVX-512, and the same bits. Words that no kernel of the
 * portable table uses are left out.
 */
#ifndef LS_ARRAY_KERNELS_PORTABLE_WIDE_H
#define LS_ARRAY_KERNELS_PORTABLE_WIDE_H

#ifndef LANES
#    define EXACT_WORDS
#    include "array/kernels/ref/vector.h"
/* Loops and calls, for the code inlined would be 16 times as large. */
#    define WIDE_INLINE static __attribute__((noinline, unused))
#    define WIDE_LOOP
#else
#    define WIDE_INLINE INLINE
#    define WIDE_LOOP   _Pragma("GCC unroll 16")
#endif
#ifndef LSI_SIMD
#    define LSI_SIMD(name) lsi_ref_##name
#endif

#include "array/kernels/portable.h"

enum {
    NARROW = LANES, /* lanes of a part */
    PARTS = LSI_PORTABLE_LANES / NARROW,
    DOUBLE_PARTS = NARROW == 1 ? 8 : PARTS
};

typedef struct wide_vf {
    vf part[PARTS];
} wide_vf;

typedef struct wide_vm {
    vm part[PARTS];
} wide_vm;

/* 8 doubles. */
typedef struct wide_vd {
    vd part[DOUBLE_PARTS];
} wide_vd;

#define FOR_PARTS(k)   WIDE_LOOP for (size_t k = 0; k < PARTS; k++)
#define FOR_DOUBLES(k) WIDE_LOOP for (size_t k = 0; k < DOUBLE_PARTS; k++)

/* How many of m lanes part k has. */
INLINE size_t lanes_of(size_t m, size_t k)
{
    if (m >= (k + 1) * NARROW)
        return NARROW;
    return m > k * NARROW ? m - k * NARROW : 0;
}

/* ---- words that do the same to each part ----------------------------------
 */
#define WIDE_1(word)                                                           \
    WIDE_INLINE wide_vf wide_##word(wide_vf a)                                 \
    {                                                                          \
        FOR_PARTS(k)                                                           \
        a.part[k] = word(a.part[k]);                                           \
        return a;                                                              \
    }
#define WIDE_2(word)                                                           \
    WIDE_INLINE wide_vf wide_##word(wide_vf a, wide_vf b)                      \
    {                                                                          \
        FOR_PARTS(k)                                                           \
        a.part[k] = word(a.part[k], b.part[k]);                                \
        return a;                                                              \
    }
#define WIDE_3(word)                                                           \
    WIDE_INLINE wide_vf wide_##word(wide_vf a, wide_vf b, wide_vf c)           \
    {                                                                          \
        FOR_PARTS(k)                                                           \
        a.part[k] = word(a.part[k], b.part[k], c.part[k]);                     \
        return a;                                                              \
    }
#define WIDE_DOUBLE_2(word)                                                    \
    WIDE_INLINE wide_vd wide_##word(wide_vd a, wide_vd b)                      \
    {                                                                          \
        FOR_DOUBLES(k)                                                         \
        a.part[k] = word(a.part[k], b.part[k]);                                \
        return a;                                                              \
    }

WIDE_1(vf_sqrt)
WIDE_1(vf_round)
WIDE_1(vf_exponent)
WIDE_2(vf_add)
WIDE_2(vf_sub)
WIDE_2(vf_mul)
WIDE_2(vf_div)
WIDE_2(vf_max)
WIDE_2(vf_min)
WIDE_2(vf_scale_2)
WIDE_2(vf_add_exponent)
WIDE_2(vf_pair)
WIDE_3(vf_fma)
WIDE_3(vf_fms)
WIDE_3(vf_fnma)
WIDE_3(vf_dot_pairs)
WIDE_DOUBLE_2(vd_add)
WIDE_DOUBLE_2(vd_sub)

WIDE_INLINE wide_vd wide_vd_fma(wide_vd a, wide_vd b, wide_vd c)
{
    FOR_DOUBLES(k)
    a.part[k] = vd_fma(a.part[k], b.part[k], c.part[k]);
    return a;
}

WIDE_INLINE wide_vm wide_vf_gt(wide_vf a, wide_vf b)
{
    wide_vm m;
    FOR_PARTS(k)
    m.part[k] = vf_gt(a.part[k], b.part[k]);
    return m;
}

WIDE_INLINE wide_vm wide_vf_is_nan(wide_vf a)
{
    wide_vm m;
    FOR_PARTS(k)
    m.part[k] = vf_is_nan(a.part[k]);
    return m;
}

WIDE_INLINE wide_vf wide_vf_select(wide_vm m, wide_vf yes, wide_vf no)
{
    FOR_PARTS(k)
    yes.part[k] = vf_select(m.part[k], yes.part[k], no.part[k]);
    return yes;
}

/* ---- memory ---------------------------------------------------------------
 */
WIDE_INLINE wide_vf wide_vf_set(float x)
{
    wide_vf a;
    FOR_PARTS(k)
    a.part[k] = vf_set(x);
    return a;
}

WIDE_INLINE wide_vf wide_vf_load(const void *p, size_t m)
{
    wide_vf a;
    FOR_PARTS(k)
    a.part[k] =
        vf_load((const char *)p + k * NARROW * sizeof(float), lanes_of(m, k));
    return a;
}

WIDE_INLINE wide_vf wide_vf_load_or(const float *p, size_t m, wide_vf rest)
{
    FOR_PARTS(k)
    rest.part[k] = vf_load_or(p + k * NARROW, lanes_of(m, k), rest.part[k]);
    return rest;
}

WIDE_INLINE void wide_vf_store(float *p, wide_vf a, size_t m)
{
    FOR_PARTS(k)
    vf_store(p + k * NARROW, a.part[k], lanes_of(m, k));
}

WIDE_INLINE wide_vf wide_vf_load_bf16_bits(const uint16_t *p, size_t m)
{
    wide_vf a;
    FOR_PARTS(k)
    a.part[k] = vf_load_bf16_bits(p + k * NARROW, lanes_of(m, k));
    return a;
}

WIDE_INLINE wide_vf wide_vf_load_f16(const uint16_t *p, size_t m)
{
    wide_vf a;
    FOR_PARTS(k)
    a.part[k] = vf_load_f16(p + k * NARROW, lanes_of(m, k));
    return a;
}

WIDE_INLINE wide_vf wide_vf_pair_bits(const uint16_t *low, const uint16_t *high)
{
    wide_vf a;
    FOR_PARTS(k)
    a.part[k] = vf_pair_bits(low + k * NARROW, high + k * NARROW);
    return a;
}

WIDE_INLINE void wide_vf_store_bf16(uint16_t *p, wide_vf a, size_t m)
{
    FOR_PARTS(k)
    vf_store_bf16(p + k * NARROW, a.part[k], lanes_of(m, k));
}

/* ---- across lanes ---------------------------------------------------------
 */
WIDE_INLINE wide_vf wide_vf_fill_low(wide_vf x, size_t n, float fill)
{
    FOR_PARTS(k)
    x.part[k] = vf_fill_low(x.part[k], lanes_of(n, k), fill);
    return x;
}

WIDE_INLINE float wide_vf_sum(wide_vf a)
{
    for (size_t half = PARTS / 2; half > 0; half /= 2)
        for (size_t k = 0; k < half; k++)
            a.part[k] = vf_add(a.part[k], a.part[k + half]);
    return vf_sum(a.part[0]);
}

WIDE_INLINE float wide_vf_max_lane(wide_vf a)
{
    for (size_t half = PARTS / 2; half > 0; half /= 2)
        for (size_t k = 0; k < half; k++)
            a.part[k] = vf_max(a.part[k], a.part[k + half]);
    return vf_max_lane(a.part[0]);
}

WIDE_INLINE wide_vd wide_vd_zero(void)
{
    wide_vd a;
    FOR_DOUBLES(k)
    a.part[k] = vd_zero();
    return a;
}

/* The lanes of PARTS / 2 parts. */
WIDE_INLINE wide_vd wide_doubles(const vf *half)
{
    wide_vd a;
#ifdef EXACT_WORDS
    for (size_t k = 0; k < DOUBLE_PARTS; k++)
        a.part[k] = half[k];
#else
    WIDE_LOOP for (size_t k = 0; k < PARTS / 2; k++)
    {
        a.part[2 * k] = vd_low(half[k]);
        a.part[2 * k + 1] = vd_high(half[k]);
    }
#endif
    return a;
}

WIDE_INLINE wide_vd wide_vd_low(wide_vf a)
{
    return wide_doubles(a.part);
}

WIDE_INLINE wide_vd wide_vd_high(wide_vf a)
{
    return wide_doubles(a.part + PARTS / 2);
}

WIDE_INLINE double wide_vd_sum(wide_vd a)
{
    for (size_t half = DOUBLE_PARTS / 2; half > 0; half /= 2)
        for (size_t k = 0; k < half; k++)
            a.part[k] = vd_add(a.part[k], a.part[k + half]);
    return vd_sum(a.part[0]);
}

/* Squares of parts, of which each pair changes places. */
WIDE_INLINE void wide_vf_transpose(wide_vf r[LSI_PORTABLE_LANES])
{
    wide_vf t[LSI_PORTABLE_LANES];
    FOR_PARTS(i)
    {
        FOR_PARTS(j)
        {
            vf square[NARROW];
            WIDE_LOOP for (size_t k = 0; k < NARROW; k++)
            {
                square[k] = r[i * NARROW + k].part[j];
            }
            vf_transpose(square);
            WIDE_LOOP for (size_t k = 0; k < NARROW; k++)
            {
                t[j * NARROW + k].part[i] = square[k];
            }
        }
    }
    memcpy(r, t, sizeof(t));
}

/* ---- from here on the words mean those ------------------------------------
 */
#ifdef EXACT_WORDS
#    undef INLINE
#    define INLINE static __attribute__((unused))
#endif

#undef LANES
#define LANES ((size_t)LSI_PORTABLE_LANES)

#undef PRODUCT_VECS
#define PRODUCT_VECS 1
#define PANEL_LANES  LSI_PORTABLE_PANEL
#define GROUP_ROWS   LSI_PORTABLE_GROUP

#define vf                wide_vf
#define vm                wide_vm
#define vd                wide_vd
#define vd_add            wide_vd_add
#define vd_fma            wide_vd_fma
#define vd_high           wide_vd_high
#define vd_low            wide_vd_low
#define vd_sub            wide_vd_sub
#define vd_sum            wide_vd_sum
#define vd_zero           wide_vd_zero
#define vf_add            wide_vf_add
#define vf_add_exponent   wide_vf_add_exponent
#define vf_div            wide_vf_div
#define vf_dot_pairs      wide_vf_dot_pairs
#define vf_exponent       wide_vf_exponent
#define vf_fill_low       wide_vf_fill_low
#define vf_fma            wide_vf_fma
#define vf_fms            wide_vf_fms
#define vf_fnma           wide_vf_fnma
#define vf_gt             wide_vf_gt
#define vf_is_nan         wide_vf_is_nan
#define vf_load           wide_vf_load
#define vf_load_f16       wide_vf_load_f16
#define vf_load_bf16_bits wide_vf_load_bf16_bits
#define vf_load_or        wide_vf_load_or
#define vf_max            wide_vf_max
#define vf_max_lane       wide_vf_max_lane
#define vf_min            wide_vf_min
#define vf_mul            wide_vf_mul
#define vf_pair           wide_vf_pair
#define vf_pair_bits      wide_vf_pair_bits
#define vf_round          wide_vf_round
#define vf_scale_2        wide_vf_scale_2
#define vf_select         wide_vf_select
#define vf_set            wide_vf_set
#define vf_sqrt           wide_vf_sqrt
#define vf_store          wide_vf_store
#define vf_store_bf16     wide_vf_store_bf16
#define vf_sub            wide_vf_sub
#define vf_sum            wide_vf_sum
#define vf_transpose      wide_vf_transpose

#endif
