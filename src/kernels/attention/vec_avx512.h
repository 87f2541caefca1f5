/*
 * The vector vocabulary of the attention tiles, for AVX-512. See tile.h for
 * what each word means. Included by one source file only.
 */
#ifndef LS_KERNELS_ATTENTION_VEC_AVX512_H
#define LS_KERNELS_ATTENTION_VEC_AVX512_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

/* A product keeps V_ROWS x V_VECS of the 32 registers as sums. */
#define V_LANES 16
#define V_ROWS  8
#define V_VECS  2

typedef __m512 vec;

static inline vec v_load(const void *p)
{
    return _mm512_loadu_ps(p);
}

static inline void v_store(float *p, vec x)
{
    _mm512_storeu_ps(p, x);
}

static inline vec v_set1(float x)
{
    return _mm512_set1_ps(x);
}

static inline vec v_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}

static inline vec v_fms(vec a, vec b, vec c)
{
    return _mm512_fmsub_ps(a, b, c);
}

static inline vec v_mul(vec a, vec b)
{
    return _mm512_mul_ps(a, b);
}

static inline vec v_add(vec a, vec b)
{
    return _mm512_add_ps(a, b);
}

static inline vec v_sub(vec a, vec b)
{
    return _mm512_sub_ps(a, b);
}

static inline vec v_max(vec a, vec b)
{
    return _mm512_max_ps(a, b);
}

static inline vec v_add_exponent(vec x, vec n)
{
    return _mm512_castsi512_ps(_mm512_add_epi32(
        _mm512_castps_si512(x), _mm512_slli_epi32(_mm512_castps_si512(n), 23)));
}

static inline vec v_fill_low(vec x, int n, float fill)
{
    const __mmask16 low = n >= 16 ? 0xffff : (__mmask16)((1U << n) - 1);
    return _mm512_mask_mov_ps(x, low, _mm512_set1_ps(fill));
}

static inline vec v_dot_pairs(vec sum, vec a, vec b)
{
#ifdef __AVX512BF16__
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
#else
    const __m512i high = _mm512_set1_epi32((int)0xffff0000U);
    const __m512i x = _mm512_castps_si512(a), y = _mm512_castps_si512(b);
    sum = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_slli_epi32(x, 16)),
                          _mm512_castsi512_ps(_mm512_slli_epi32(y, 16)), sum);
    return _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_and_si512(x, high)),
                           _mm512_castsi512_ps(_mm512_and_si512(y, high)), sum);
#endif
}

#ifdef __AVX512BF16__
static inline __m256i round_to_bf16(vec x)
{
    return (__m256i)_mm512_cvtneps_pbh(x);
}

static inline vec v_pair(vec low, vec high)
{
    const __m512i order = _mm512_set_epi16(
        31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22,
        6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const __m512i both = (__m512i)_mm512_cvtne2ps_pbh(high, low);
    return _mm512_castsi512_ps(_mm512_permutexvar_epi16(order, both));
}
#else
/* f32 to bf16 in the low half of each lane, to nearest even; NaN stays. */
static inline __m512i round_to_words(vec x)
{
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i odd =
        _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i up = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
    const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, up), 16);
    const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    return _mm512_mask_mov_epi32(rounded, nan, _mm512_set1_epi32(0x7fc0));
}

static inline __m256i round_to_bf16(vec x)
{
    return _mm512_cvtepi32_epi16(round_to_words(x));
}

static inline vec v_pair(vec low, vec high)
{
    const __m512i shifted = _mm512_slli_epi32(round_to_words(high), 16);
    return _mm512_castsi512_ps(_mm512_or_si512(round_to_words(low), shifted));
}
#endif

static inline vec v_pair_bits(const uint16_t *low, const uint16_t *high)
{
    const __m512i a =
        _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)low));
    const __m512i b =
        _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)high));
    return _mm512_castsi512_ps(_mm512_or_si512(a, _mm512_slli_epi32(b, 16)));
}

static inline vec v_load_bf16(const uint16_t *p)
{
    const __m256i bits = _mm256_loadu_si256((const __m256i *)p);
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

static inline void v_store_bf16(uint16_t *p, vec x)
{
    _mm256_storeu_si256((__m256i *)p, round_to_bf16(x));
}

/* One level of the transposition: pairs of rows `step` apart trade halves. */
static inline void unpack_rows(__m512 out[16], const __m512 in[16])
{
    for (int i = 0; i < 16; i += 2) {
        out[i] = _mm512_unpacklo_ps(in[i], in[i + 1]);
        out[i + 1] = _mm512_unpackhi_ps(in[i], in[i + 1]);
    }
}

static inline void unpack_pairs(__m512 out[16], const __m512 in[16])
{
    for (int i = 0; i < 16; i += 4) {
        for (int j = 0; j < 2; j++) {
            const __m512d a = _mm512_castps_pd(in[i + j]);
            const __m512d b = _mm512_castps_pd(in[i + j + 2]);
            out[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
            out[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
        }
    }
}

static inline void v_transpose(float *dst, size_t ld, const vec rows[16])
{
    __m512 a[16], b[16];
    unpack_rows(a, rows);
    unpack_pairs(b, a);
    for (int i = 0; i < 4; i++) {
        const __m512 p = _mm512_shuffle_f32x4(b[i], b[i + 4], 0x88);
        const __m512 q = _mm512_shuffle_f32x4(b[i], b[i + 4], 0xdd);
        const __m512 r = _mm512_shuffle_f32x4(b[i + 8], b[i + 12], 0x88);
        const __m512 s = _mm512_shuffle_f32x4(b[i + 8], b[i + 12], 0xdd);
        v_store(dst + (size_t)i * ld, _mm512_shuffle_f32x4(p, r, 0x88));
        v_store(dst + (size_t)(i + 4) * ld, _mm512_shuffle_f32x4(q, s, 0x88));
        v_store(dst + (size_t)(i + 8) * ld, _mm512_shuffle_f32x4(p, r, 0xdd));
        v_store(dst + (size_t)(i + 12) * ld, _mm512_shuffle_f32x4(q, s, 0xdd));
    }
}

#endif
