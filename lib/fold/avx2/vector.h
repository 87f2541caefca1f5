/*
 * The words in which simd/ and attention/ are written, for AVX2 with FMA and
 * F16C; see avx512/vector.h. A mask is a vector with all bits of a lane set or
 * clear.
 */
#ifndef LS_FOLD_AVX2_VECTOR_H
#define LS_FOLD_AVX2_VECTOR_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define LSI_SIMD(name) lsi_avx2_##name
#define INLINE         static inline __attribute__((always_inline, unused))
#define LANES          ((size_t)8)

/* 12 of the 16 registers are sums. */
#define PRODUCT_ROWS 6
#define PRODUCT_VECS 2

#define MM(operation)      _mm256_##operation
#define MM_BITS(operation) _mm256_##operation##_si256

typedef __m256 vf;
typedef __m256i vi;
typedef __m256d vd;
typedef __m256 vm;

INLINE vi bits_of(vf x)
{
    return _mm256_castps_si256(x);
}

INLINE vf vf_of(vi bits)
{
    return _mm256_castsi256_ps(bits);
}

INLINE __m256i first_lanes(size_t m)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)m),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* ---- float -----------------------------------------------------------------
 */
INLINE vf vf_load(const void *p, size_t m)
{
    return m == LANES ? _mm256_loadu_ps(p)
                      : _mm256_maskload_ps(p, first_lanes(m));
}

INLINE vf vf_load_or(const float *p, size_t m, vf rest)
{
    if (m == LANES)
        return _mm256_loadu_ps(p);
    const __m256i mask = first_lanes(m);
    return _mm256_blendv_ps(rest, _mm256_maskload_ps(p, mask), vf_of(mask));
}

INLINE void vf_store(float *p, vf x, size_t m)
{
    if (m == LANES)
        _mm256_storeu_ps(p, x);
    else
        _mm256_maskstore_ps(p, first_lanes(m), x);
}

INLINE vf vf_round(vf a)
{
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* For n in -126..127. */
INLINE vf vf_scale_2(vf a, vf n)
{
    const vi biased =
        _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_mul_ps(a, vf_of(_mm256_slli_epi32(biased, 23)));
}

/* e with 2^e <= x < 2^(e + 1), of a normal x above 0. */
INLINE vf vf_exponent(vf x)
{
    const vi biased = _mm256_srli_epi32(bits_of(x), 23);
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(biased, _mm256_set1_epi32(127)));
}

INLINE vm vf_gt(vf a, vf b)
{
    return _mm256_cmp_ps(a, b, _CMP_GT_OQ);
}

INLINE vm vf_is_nan(vf a)
{
    return _mm256_cmp_ps(a, a, _CMP_UNORD_Q);
}

INLINE vm vm_or(vm a, vm b)
{
    return _mm256_or_ps(a, b);
}

INLINE vm vm_and_not(vm a, vm b)
{
    return _mm256_andnot_ps(b, a);
}

INLINE vf vf_select(vm m, vf yes, vf no)
{
    return _mm256_blendv_ps(no, yes, m);
}

INLINE vf vf_keep(vm m, vf a)
{
    return _mm256_and_ps(m, a);
}

INLINE vf vf_fill_low(vf x, size_t n, float fill)
{
    return vf_select(vf_of(first_lanes(n)), _mm256_set1_ps(fill), x);
}

INLINE float vf_sum(vf a)
{
    const __m128 four =
        _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

INLINE float vf_max_lane(vf a)
{
    const __m128 four =
        _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

/* ---- double ----------------------------------------------------------------
 */
INLINE vd vd_low(vf a)
{
    return _mm256_cvtps_pd(_mm256_castps256_ps128(a));
}

INLINE vd vd_high(vf a)
{
    return _mm256_cvtps_pd(_mm256_extractf128_ps(a, 1));
}

INLINE double vd_sum(vd a)
{
    const __m128d two =
        _mm_add_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

/* ---- 32-bit integers --------------------------------------------------------
 */
INLINE vi vi_load(const uint32_t *p, size_t m)
{
    const int *q = (const int *)(const void *)p;
    return m == LANES ? _mm256_loadu_si256((const __m256i *)(const void *)p)
                      : _mm256_maskload_epi32(q, first_lanes(m));
}

INLINE void vi_store(uint32_t *p, vi x)
{
    _mm256_storeu_si256((__m256i *)(void *)p, x);
}

INLINE vi vi_xor3(vi a, vi b, vi c)
{
    return _mm256_xor_si256(_mm256_xor_si256(a, b), c);
}

INLINE vi vi_select(vm m, vi yes, vi no)
{
    return _mm256_blendv_epi8(no, yes, bits_of(m));
}

INLINE vm vi_eq(vi a, vi b)
{
    return vf_of(_mm256_cmpeq_epi32(a, b));
}

INLINE vm vi_ge_unsigned(vi a, vi b)
{
    return vi_eq(_mm256_max_epu32(a, b), a);
}

/* ---- 64-bit integers, and 32-bit ones in their low halves ---------------- */
INLINE vi vi_set_64(uint64_t x)
{
    return _mm256_set1_epi64x((long long)x);
}

INLINE vi vi_pair(vi low, vi high)
{
    return _mm256_blend_epi32(low, _mm256_slli_epi64(high, 32), 0xAA);
}

INLINE vi vi_group_order(void)
{
    return _mm256_setr_epi64x(0, 2, 1, 3);
}

/* ---- conversion -------------------------------------------------------------
 */
INLINE vi vi_load_u8(const uint8_t *p, size_t m)
{
    uint64_t bytes = 0;
    memcpy(&bytes, p, m);
    return _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)bytes));
}

INLINE void vi_store_u8(uint8_t *p, vi x, size_t m)
{
    const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(x),
                                           _mm256_extracti128_si256(x, 1));
    const uint64_t bytes =
        (uint64_t)_mm_cvtsi128_si64(_mm_packus_epi16(words, words));
    memcpy(p, &bytes, m);
}

INLINE __m128i load_u16(const uint16_t *p, size_t m)
{
    __m128i x = _mm_setzero_si128();
    memcpy(&x, p, m * sizeof(*p));
    return x;
}

INLINE void store_u16(uint16_t *p, __m128i x, size_t m)
{
    memcpy(p, &x, m * sizeof(*p));
}

#include "fold/simd/x86.h"

/* ---- words that are made of those ---------------------------------------- */
INLINE vf vf_load_bf16(const uint16_t *p, size_t m)
{
    const vf x = vf_load_bf16_bits(p, m);
    const vf quiet = vf_of(vi_set(0x400000));
    return _mm256_or_ps(x, vf_keep(vf_is_nan(x), quiet));
}

INLINE void vf_store_bf16(uint16_t *p, vf x, size_t m)
{
    const vi words = round_to_words(x);
    store_u16(p,
              _mm_packus_epi32(_mm256_castsi256_si128(words),
                               _mm256_extracti128_si256(words, 1)),
              m);
}

/* ---- transposition ------------------------------------------------------ */
INLINE void vf_transpose(vf r[8])
{
    vf t[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i += 4) {
        r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xEE);
        r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xEE);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        t[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
        t[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        r[i] = t[i];
}

#endif
