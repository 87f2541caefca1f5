/*
 * The vector vocabulary of the attention tiles, for AVX2 with FMA. See tile.h
 * for what each word means.
 */
#ifndef LS_KERNELS_ATTENTION_VEC_AVX2_H
#define LS_KERNELS_ATTENTION_VEC_AVX2_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

/* 12 of the 16 registers are sums. */
#define V_LANES 8
#define V_ROWS  6
#define V_VECS  2

typedef __m256 vec;

static inline vec v_load(const void *p)
{
    return _mm256_loadu_ps(p);
}

static inline void v_store(float *p, vec x)
{
    _mm256_storeu_ps(p, x);
}

static inline vec v_set1(float x)
{
    return _mm256_set1_ps(x);
}

static inline vec v_fma(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}

static inline vec v_fms(vec a, vec b, vec c)
{
    return _mm256_fmsub_ps(a, b, c);
}

static inline vec v_mul(vec a, vec b)
{
    return _mm256_mul_ps(a, b);
}

static inline vec v_add(vec a, vec b)
{
    return _mm256_add_ps(a, b);
}

static inline vec v_sub(vec a, vec b)
{
    return _mm256_sub_ps(a, b);
}

static inline vec v_max(vec a, vec b)
{
    return _mm256_max_ps(a, b);
}

static inline vec v_add_exponent(vec x, vec n)
{
    const __m256i up = _mm256_slli_epi32(_mm256_castps_si256(n), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x), up));
}

static inline vec v_fill_low(vec x, int n, float fill)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i low = _mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane);
    return _mm256_blendv_ps(x, _mm256_set1_ps(fill), _mm256_castsi256_ps(low));
}

static inline vec v_dot_pairs(vec sum, vec a, vec b)
{
    const __m256i high = _mm256_set1_epi32((int)0xffff0000U);
    const __m256i x = _mm256_castps_si256(a), y = _mm256_castps_si256(b);
    sum = _mm256_fmadd_ps(_mm256_castsi256_ps(_mm256_slli_epi32(x, 16)),
                          _mm256_castsi256_ps(_mm256_slli_epi32(y, 16)), sum);
    return _mm256_fmadd_ps(_mm256_castsi256_ps(_mm256_and_si256(x, high)),
                           _mm256_castsi256_ps(_mm256_and_si256(y, high)), sum);
}

/* f32 to bf16 in the low half of each lane, to nearest even; NaN stays. */
static inline __m256i round_to_bf16(vec x)
{
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i odd =
        _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i up = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, up), 16);
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    return _mm256_blendv_epi8(rounded, _mm256_set1_epi32(0x7fc0), nan);
}

static inline vec v_pair(vec low, vec high)
{
    const __m256i shifted = _mm256_slli_epi32(round_to_bf16(high), 16);
    return _mm256_castsi256_ps(_mm256_or_si256(round_to_bf16(low), shifted));
}

static inline __m256i load_half(const uint16_t *p)
{
    return _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
}

static inline vec v_pair_bits(const uint16_t *low, const uint16_t *high)
{
    return _mm256_castsi256_ps(_mm256_or_si256(
        load_half(low), _mm256_slli_epi32(load_half(high), 16)));
}

static inline vec v_load_bf16(const uint16_t *p)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(load_half(p), 16));
}

static inline void v_store_bf16(uint16_t *p, vec x)
{
    const __m256i words = round_to_bf16(x);
    _mm_storeu_si128((__m128i *)p,
                     _mm_packus_epi32(_mm256_castsi256_si128(words),
                                      _mm256_extracti128_si256(words, 1)));
}

static inline void v_transpose(float *dst, size_t ld, const vec rows[8])
{
    __m256 a[8], b[8];
    for (int i = 0; i < 8; i += 2) {
        a[i] = _mm256_unpacklo_ps(rows[i], rows[i + 1]);
        a[i + 1] = _mm256_unpackhi_ps(rows[i], rows[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        b[i] = _mm256_shuffle_ps(a[i], a[i + 2], 0x44);
        b[i + 1] = _mm256_shuffle_ps(a[i], a[i + 2], 0xee);
        b[i + 2] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0x44);
        b[i + 3] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        v_store(dst + (size_t)i * ld,
                _mm256_permute2f128_ps(b[i], b[i + 4], 0x20));
        v_store(dst + (size_t)(i + 4) * ld,
                _mm256_permute2f128_ps(b[i], b[i + 4], 0x31));
    }
}

#endif
