/*
 * The words that AVX2 and AVX-512 spell alike: the vector.h of each includes
 * this file, behind the words that it has to spell itself. MM(add_ps) is
 * _mm256_add_ps or _mm512_add_ps, and MM_BITS(and) operates on all bits.
 */
#ifndef LS_FOLD_SIMD_X86_H
#define LS_FOLD_SIMD_X86_H

#ifdef LSI_SIMD /* looked at alone, the file has no words */

/* ---- float -----------------------------------------------------------------
 */
INLINE vf vf_set(float x)
{
    return MM(set1_ps)(x);
}

/* As vf_store, past the caches if whole; p is aligned to a vector. */
INLINE void vf_stream(float *p, vf x, size_t m)
{
    if (m == LANES)
        MM(stream_ps)(p, x);
    else
        vf_store(p, x, m);
}

/* After the last vf_stream: what was stored is seen by others. */
INLINE void vf_stream_end(void)
{
    _mm_sfence();
}

INLINE vf vf_add(vf a, vf b)
{
    return MM(add_ps)(a, b);
}

INLINE vf vf_sub(vf a, vf b)
{
    return MM(sub_ps)(a, b);
}

INLINE vf vf_mul(vf a, vf b)
{
    return MM(mul_ps)(a, b);
}

INLINE vf vf_div(vf a, vf b)
{
    return MM(div_ps)(a, b);
}

INLINE vf vf_sqrt(vf a)
{
    return MM(sqrt_ps)(a);
}

/* a * b + c, rounded once. */
INLINE vf vf_fma(vf a, vf b, vf c)
{
    return MM(fmadd_ps)(a, b, c);
}

/* a * b - c, rounded once. */
INLINE vf vf_fms(vf a, vf b, vf c)
{
    return MM(fmsub_ps)(a, b, c);
}

/* c - a * b, rounded once. */
INLINE vf vf_fnma(vf a, vf b, vf c)
{
    return MM(fnmadd_ps)(a, b, c);
}

/* a > b ? a : b, so b if either is NaN; vf_min alike. */
INLINE vf vf_max(vf a, vf b)
{
    return MM(max_ps)(a, b);
}

INLINE vf vf_min(vf a, vf b)
{
    return MM(min_ps)(a, b);
}

/* The integer in the low bits of n is added to the exponent of x. */
INLINE vf vf_add_exponent(vf x, vf n)
{
    return vf_of(MM(add_epi32)(bits_of(x), MM(slli_epi32)(bits_of(n), 23)));
}

/* ---- double ----------------------------------------------------------------
 */
INLINE vd vd_zero(void)
{
    return MM(setzero_pd)();
}

INLINE vd vd_add(vd a, vd b)
{
    return MM(add_pd)(a, b);
}

INLINE vd vd_sub(vd a, vd b)
{
    return MM(sub_pd)(a, b);
}

INLINE vd vd_fma(vd a, vd b, vd c)
{
    return MM(fmadd_pd)(a, b, c);
}

/* ---- 32-bit integers --------------------------------------------------------
 */
INLINE vi vi_set(uint32_t x)
{
    return MM(set1_epi32)((int)x);
}

INLINE vi vi_add(vi a, vi b)
{
    return MM(add_epi32)(a, b);
}

/* ---- 64-bit integers, and 32-bit ones in their low halves ---------------- */

INLINE vi vi_add_64(vi a, vi b)
{
    return MM(add_epi64)(a, b);
}

/* The 64-bit products of the low halves. */
INLINE vi vi_multiply_low(vi a, vi b)
{
    return MM(mul_epu32)(a, b);
}

INLINE vi vi_high_half(vi a)
{
    return MM(srli_epi64)(a, 32);
}

/*
 * Makes groups of a lane of a and the same lane of b. If lane l belongs to
 * number vi_group_order()[l], those groups lie in order in *first, *second.
 */
INLINE void vi_group(vi a, vi b, vi *first, vi *second)
{
    *first = MM(unpacklo_epi64)(a, b);
    *second = MM(unpackhi_epi64)(a, b);
}

/* ---- conversion -------------------------------------------------------------
 */
INLINE vf vf_from_vi(vi x)
{
    return MM(cvtepi32_ps)(x);
}

INLINE vf vf_load_u8(const uint8_t *p, size_t m)
{
    return vf_from_vi(vi_load_u8(p, m));
}

INLINE vf vf_load_f16(const uint16_t *p, size_t m)
{
    return MM(cvtph_ps)(load_u16(p, m));
}

INLINE void vf_store_f16(uint16_t *p, vf x, size_t m)
{
    store_u16(p, MM(cvtps_ph)(x, _MM_FROUND_TO_NEAREST_INT), m);
}

/* The bits as they are: a signalling NaN stays one. */
INLINE vf vf_load_bf16_bits(const uint16_t *p, size_t m)
{
    return vf_of(MM(slli_epi32)(MM(cvtepu16_epi32)(load_u16(p, m)), 16));
}

/* ---- words: two bf16 in the 32 bits of a lane, the first in the low half ----
 */
INLINE vi round_to_words(vf x)
{
    const vi bits = bits_of(x);
    const vi odd = MM_BITS(and)(MM(srli_epi32)(bits, 16), vi_set(1));
    const vi rounded = vi_add(vi_add(bits, vi_set(0x7FFF)), odd);
    const vi result =
        vi_select(vf_is_nan(x), MM_BITS(or)(bits, vi_set(0x400000)), rounded);
    return MM(srli_epi32)(result, 16);
}

#    ifndef __AVX512BF16__ /* which has instructions for these two */
/* sum + the products of both halves. */
INLINE vf vf_dot_pairs(vf sum, vf a, vf b)
{
    const vi high = vi_set(0xffff0000U);
    const vi x = bits_of(a), y = bits_of(b);
    sum =
        vf_fma(vf_of(MM(slli_epi32)(x, 16)), vf_of(MM(slli_epi32)(y, 16)), sum);
    return vf_fma(vf_of(MM_BITS(and)(x, high)), vf_of(MM_BITS(and)(y, high)),
                  sum);
}

/* Two vectors, rounded, as words. */
INLINE vf vf_pair(vf low, vf high)
{
    const vi shifted = MM(slli_epi32)(round_to_words(high), 16);
    return vf_of(MM_BITS(or)(round_to_words(low), shifted));
}
#    endif

/* Two rows of bf16 as words. */
INLINE vf vf_pair_bits(const uint16_t *low, const uint16_t *high)
{
    const vi a = MM(cvtepu16_epi32)(load_u16(low, LANES));
    const vi b = MM(cvtepu16_epi32)(load_u16(high, LANES));
    return vf_of(MM_BITS(or)(a, MM(slli_epi32)(b, 16)));
}

#endif
#endif
