/*
 * The vocabulary of simd/ and attention/, for AVX-512 (F, BW, DQ, VL). vf, vi
 * and vd are vectors of float, 32-bit integers and double; vm is a mask of
 * lanes.
 *
 * Loads and stores take the number of lanes, 1..LANES; it is usually the
 * constant LANES, and the test for it goes away. Lanes that a load leaves out
 * are 0.
 */
#ifndef LS_FOLD_AVX512_VECTOR_H
#define LS_FOLD_AVX512_VECTOR_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define LSI_SIMD(name) lsi_avx512_##name
#define INLINE         static inline __attribute__((always_inline, unused))
#define LANES          ((size_t)16)

/* Rows of a product, and registers per row (of 32), that are kept as sums. */
#define PRODUCT_ROWS 8
#define PRODUCT_VECS 2

#define MM(operation)      _mm512_##operation
#define MM_BITS(operation) _mm512_##operation##_si512

typedef __m512 vf;
typedef __m512i vi;
typedef __m512d vd;
typedef __mmask16 vm;

INLINE vi bits_of(vf x)
{
    return _mm512_castps_si512(x);
}

INLINE vf vf_of(vi bits)
{
    return _mm512_castsi512_ps(bits);
}

INLINE __mmask16 first_lanes(size_t m)
{
    return (__mmask16)((1U << m) - 1);
}

/* ---- float -----------------------------------------------------------------
 */
/* From any address. */
INLINE vf vf_load(const void *p, size_t m)
{
    return m == LANES ? _mm512_loadu_ps(p)
                      : _mm512_maskz_loadu_ps(first_lanes(m), p);
}

/* As vf_load; the lanes left out are those of `rest`. */
INLINE vf vf_load_or(const float *p, size_t m, vf rest)
{
    return m == LANES ? _mm512_loadu_ps(p)
                      : _mm512_mask_loadu_ps(rest, first_lanes(m), p);
}

INLINE void vf_store(float *p, vf x, size_t m)
{
    if (m == LANES)
        _mm512_storeu_ps(p, x);
    else
        _mm512_mask_storeu_ps(p, first_lanes(m), x);
}

INLINE vf vf_round(vf a)
{
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT);
}

/* a * 2^n for integers n. */
INLINE vf vf_scale_2(vf a, vf n)
{
    return _mm512_scalef_ps(a, n);
}

/* e with 2^e <= x < 2^(e + 1), of a normal x above 0. */
INLINE vf vf_exponent(vf x)
{
    return _mm512_getexp_ps(x);
}

INLINE vm vf_gt(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ);
}

INLINE vm vf_is_nan(vf a)
{
    return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
}

INLINE vm vm_or(vm a, vm b)
{
    return (vm)(a | b);
}

/* a, but not where b is set. */
INLINE vm vm_and_not(vm a, vm b)
{
    return (vm)(a & ~b);
}

INLINE vf vf_select(vm m, vf yes, vf no)
{
    return _mm512_mask_blend_ps(m, no, yes);
}

/* a where m is set, 0 elsewhere. */
INLINE vf vf_keep(vm m, vf a)
{
    return _mm512_maskz_mov_ps(m, a);
}

/* x, but `fill` in the first n lanes. */
INLINE vf vf_fill_low(vf x, size_t n, float fill)
{
    return _mm512_mask_mov_ps(x, first_lanes(n), _mm512_set1_ps(fill));
}

/*
 * Across lanes: the halves, then theirs, as at every level.
 * _mm512_reduce_add_ps would leave the order to the compiler.
 */
INLINE float vf_sum(vf a)
{
    const __m256 eight =
        _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight),
                                   _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

INLINE float vf_max_lane(vf a)
{
    const __m256 eight =
        _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight),
                                   _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

/* ---- double ----------------------------------------------------------------
 */
INLINE vd vd_low(vf a)
{
    return _mm512_cvtps_pd(_mm512_castps512_ps256(a));
}

INLINE vd vd_high(vf a)
{
    return _mm512_cvtps_pd(_mm512_extractf32x8_ps(a, 1));
}

INLINE double vd_sum(vd a)
{
    const __m256d four =
        _mm256_add_pd(_mm512_castpd512_pd256(a), _mm512_extractf64x4_pd(a, 1));
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four),
                                   _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

/* ---- 32-bit integers --------------------------------------------------------
 */
INLINE vi vi_load(const uint32_t *p, size_t m)
{
    return m == LANES ? _mm512_loadu_si512(p)
                      : _mm512_maskz_loadu_epi32(first_lanes(m), p);
}

INLINE void vi_store(uint32_t *p, vi x)
{
    _mm512_storeu_si512(p, x);
}

INLINE vi vi_xor3(vi a, vi b, vi c)
{
    return _mm512_ternarylogic_epi32(a, b, c, 0x96);
}

INLINE vi vi_select(vm m, vi yes, vi no)
{
    return _mm512_mask_blend_epi32(m, no, yes);
}

INLINE vm vi_eq(vi a, vi b)
{
    return _mm512_cmpeq_epi32_mask(a, b);
}

INLINE vm vi_ge_unsigned(vi a, vi b)
{
    return _mm512_cmpge_epu32_mask(a, b);
}

/* ---- 64-bit integers, and 32-bit ones in their low halves ---------------- */
INLINE vi vi_set_64(uint64_t x)
{
    return _mm512_set1_epi64((long long)x);
}

/* The low halves of `low` and, in the high halves, those of `high`. */
INLINE vi vi_pair(vi low, vi high)
{
    return _mm512_mask_blend_epi32(0xAAAA, low, _mm512_slli_epi64(high, 32));
}

INLINE vi vi_group_order(void)
{
    return _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
}

/* ---- conversion -------------------------------------------------------------
 */
INLINE vi vi_load_u8(const uint8_t *p, size_t m)
{
    const __m128i bytes =
        m == LANES ? _mm_loadu_si128((const __m128i *)(const void *)p)
                   : _mm_maskz_loadu_epi8(first_lanes(m), p);
    return _mm512_cvtepu8_epi32(bytes);
}

/* Lanes are 0..255. */
INLINE void vi_store_u8(uint8_t *p, vi x, size_t m)
{
    _mm512_mask_cvtepi32_storeu_epi8(p, first_lanes(m), x);
}

INLINE __m256i load_u16(const uint16_t *p, size_t m)
{
    return m == LANES ? _mm256_loadu_si256((const __m256i *)(const void *)p)
                      : _mm256_maskz_loadu_epi16(first_lanes(m), p);
}

INLINE void store_u16(uint16_t *p, __m256i x, size_t m)
{
    if (m == LANES)
        _mm256_storeu_si256((__m256i *)(void *)p, x);
    else
        _mm256_mask_storeu_epi16(p, first_lanes(m), x);
}

#include "fold/simd/x86.h"

/* ---- words that are made of those ---------------------------------------- */
INLINE vf vf_load_bf16(const uint16_t *p, size_t m)
{
    const vf x = vf_load_bf16_bits(p, m);
    const vi bits = bits_of(x);
    return vf_of(
        _mm512_mask_or_epi32(bits, vf_is_nan(x), bits, vi_set(0x400000)));
}

/*
 * Rounded to nearest even, in two ways: the instructions of AVX-512 BF16 take
 * subnormal numbers for zero, so only attention has them.
 */
#ifdef __AVX512BF16__
INLINE __m256i round_to_bf16(vf x)
{
    return (__m256i)_mm512_cvtneps_pbh(x);
}

INLINE vf vf_dot_pairs(vf sum, vf a, vf b)
{
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
}

INLINE vf vf_pair(vf low, vf high)
{
    const vi order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11,
                                      26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5,
                                      20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const vi both = (vi)_mm512_cvtne2ps_pbh(high, low);
    return vf_of(_mm512_permutexvar_epi16(order, both));
}
#else
INLINE __m256i round_to_bf16(vf x)
{
    return _mm512_cvtepi32_epi16(round_to_words(x));
}
#endif

INLINE void vf_store_bf16(uint16_t *p, vf x, size_t m)
{
    store_u16(p, round_to_bf16(x), m);
}

/* ---- transposition ------------------------------------------------------ */
/* Row i of the result is column i of what was there. */
INLINE void vf_transpose(vf r[16])
{
    vf t[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) { /* columns of 4 rows in 128-bit lanes */
        r[i] = _mm512_shuffle_ps(t[i], t[i + 2], 0x44);
        r[i + 1] = _mm512_shuffle_ps(t[i], t[i + 2], 0xEE);
        r[i + 2] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        r[i + 3] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0xEE);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) { /* then the lanes themselves */
        t[i] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xDD);
        t[i + 8] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xDD);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        r[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
        r[i + 4] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0x88);
        r[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xDD);
        r[i + 12] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0xDD);
    }
}

#endif
