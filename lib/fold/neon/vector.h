/*
 * The words in which simd/ and attention/ are written, for NEON of 64-bit ARM;
 * see avx512/vector.h. A mask is a vector with all bits of a lane set or clear.
 */
#ifndef LS_FOLD_NEON_VECTOR_H
#define LS_FOLD_NEON_VECTOR_H

#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define LSI_SIMD(name) lsi_neon_##name
#define INLINE         static inline __attribute__((always_inline, unused))
#define LANES          ((size_t)4)

/* 24 of the 32 registers are sums. */
#define PRODUCT_ROWS 6
#define PRODUCT_VECS 4

typedef float32x4_t vf;
typedef uint32x4_t vi;
typedef uint32x4_t vm;

typedef float64x2_t vd;

INLINE vf vf_of(vi bits)
{
    return vreinterpretq_f32_u32(bits);
}

INLINE vi bits_of(vf x)
{
    return vreinterpretq_u32_f32(x);
}

INLINE vm first_lanes(size_t m)
{
    static const uint32_t lane[] = {0, 1, 2, 3};
    return vcltq_u32(vld1q_u32(lane), vdupq_n_u32((uint32_t)m));
}

/* ---- float -----------------------------------------------------------------
 */
INLINE vf vf_set(float x)
{
    return vdupq_n_f32(x);
}

INLINE vf vf_load(const void *p, size_t m)
{
    vf x = vf_set(0.0F);
    memcpy(&x, p, m * sizeof(float));
    return x;
}

INLINE vf vf_load_or(const float *p, size_t m, vf rest)
{
    memcpy(&rest, p, m * sizeof(float));
    return rest;
}

INLINE void vf_store(float *p, vf x, size_t m)
{
    memcpy(p, &x, m * sizeof(float));
}

/* No store past the caches is worth it. */
INLINE void vf_stream(float *p, vf x, size_t m)
{
    vf_store(p, x, m);
}

INLINE void vf_stream_end(void)
{
}

INLINE vf vf_add(vf a, vf b)
{
    return vaddq_f32(a, b);
}

INLINE vf vf_sub(vf a, vf b)
{
    return vsubq_f32(a, b);
}

INLINE vf vf_mul(vf a, vf b)
{
    return vmulq_f32(a, b);
}

INLINE vf vf_div(vf a, vf b)
{
    return vdivq_f32(a, b);
}

INLINE vf vf_sqrt(vf a)
{
    return vsqrtq_f32(a);
}

INLINE vf vf_fma(vf a, vf b, vf c)
{
    return vfmaq_f32(c, a, b);
}

INLINE vf vf_fms(vf a, vf b, vf c)
{
    return vfmaq_f32(vnegq_f32(c), a, b);
}

INLINE vf vf_fnma(vf a, vf b, vf c)
{
    return vfmsq_f32(c, a, b);
}

/* Not vmaxq_f32, which gives NaN if either is. */
INLINE vf vf_max(vf a, vf b)
{
    return vbslq_f32(vcgtq_f32(a, b), a, b);
}

INLINE vf vf_min(vf a, vf b)
{
    return vbslq_f32(vcltq_f32(a, b), a, b);
}

INLINE vf vf_round(vf a)
{
    return vrndnq_f32(a);
}

/* For n in -126..127. */
INLINE vf vf_scale_2(vf a, vf n)
{
    const int32x4_t biased = vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127));
    return vf_mul(a, vreinterpretq_f32_s32(vshlq_n_s32(biased, 23)));
}

INLINE vf vf_add_exponent(vf x, vf n)
{
    return vf_of(vaddq_u32(bits_of(x), vshlq_n_u32(bits_of(n), 23)));
}

/* e with 2^e <= x < 2^(e + 1), of a normal x above 0. */
INLINE vf vf_exponent(vf x)
{
    const int32x4_t biased = vreinterpretq_s32_u32(vshrq_n_u32(bits_of(x), 23));
    return vcvtq_f32_s32(vsubq_s32(biased, vdupq_n_s32(127)));
}

INLINE vm vf_gt(vf a, vf b)
{
    return vcgtq_f32(a, b);
}

INLINE vm vf_is_nan(vf a)
{
    return vmvnq_u32(vceqq_f32(a, a));
}

INLINE vm vm_or(vm a, vm b)
{
    return vorrq_u32(a, b);
}

INLINE vm vm_and_not(vm a, vm b)
{
    return vbicq_u32(a, b);
}

INLINE vf vf_select(vm m, vf yes, vf no)
{
    return vbslq_f32(m, yes, no);
}

INLINE vf vf_keep(vm m, vf a)
{
    return vf_of(vandq_u32(m, bits_of(a)));
}

INLINE vf vf_fill_low(vf x, size_t n, float fill)
{
    return vf_select(first_lanes(n), vf_set(fill), x);
}

INLINE float vf_sum(vf a)
{
    const float32x2_t two = vadd_f32(vget_low_f32(a), vget_high_f32(a));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

/* Not vmaxvq_f32: of equal zeros it chooses by their signs. */
INLINE float vf_max_lane(vf a)
{
    const vf two = vf_max(a, vextq_f32(a, a, 2));
    return vgetq_lane_f32(vf_max(two, vextq_f32(two, two, 1)), 0);
}

/* ---- double ----------------------------------------------------------------
 */
INLINE vd vd_zero(void)
{
    return vdupq_n_f64(0.0);
}

INLINE vd vd_low(vf a)
{
    return vcvt_f64_f32(vget_low_f32(a));
}

INLINE vd vd_high(vf a)
{
    return vcvt_high_f64_f32(a);
}

INLINE vd vd_add(vd a, vd b)
{
    return vaddq_f64(a, b);
}

INLINE vd vd_sub(vd a, vd b)
{
    return vsubq_f64(a, b);
}

INLINE vd vd_fma(vd a, vd b, vd c)
{
    return vfmaq_f64(c, a, b);
}

INLINE double vd_sum(vd a)
{
    return vgetq_lane_f64(a, 0) + vgetq_lane_f64(a, 1);
}

/* ---- 32-bit integers --------------------------------------------------------
 */
INLINE vi vi_set(uint32_t x)
{
    return vdupq_n_u32(x);
}

INLINE vi vi_load(const uint32_t *p, size_t m)
{
    vi x = vi_set(0);
    memcpy(&x, p, m * sizeof(*p));
    return x;
}

INLINE void vi_store(uint32_t *p, vi x)
{
    vst1q_u32(p, x);
}

INLINE vi vi_xor3(vi a, vi b, vi c)
{
    return veorq_u32(veorq_u32(a, b), c);
}

INLINE vi vi_select(vm m, vi yes, vi no)
{
    return vbslq_u32(m, yes, no);
}

INLINE vm vi_eq(vi a, vi b)
{
    return vceqq_u32(a, b);
}

INLINE vm vi_ge_unsigned(vi a, vi b)
{
    return vcgeq_u32(a, b);
}

/* ---- 64-bit integers, and 32-bit ones in their low halves ---------------- */
INLINE vi vi_set_64(uint64_t x)
{
    return vreinterpretq_u32_u64(vdupq_n_u64(x));
}

INLINE vi vi_add_64(vi a, vi b)
{
    return vreinterpretq_u32_u64(
        vaddq_u64(vreinterpretq_u64_u32(a), vreinterpretq_u64_u32(b)));
}

INLINE vi vi_multiply_low(vi a, vi b)
{
    return vreinterpretq_u32_u64(
        vmull_u32(vmovn_u64(vreinterpretq_u64_u32(a)),
                  vmovn_u64(vreinterpretq_u64_u32(b))));
}

INLINE vi vi_high_half(vi a)
{
    return vreinterpretq_u32_u64(vshrq_n_u64(vreinterpretq_u64_u32(a), 32));
}

INLINE vi vi_pair(vi low, vi high)
{
    return vtrn1q_u32(low, high);
}

INLINE void vi_group(vi a, vi b, vi *first, vi *second)
{
    const uint64x2_t x = vreinterpretq_u64_u32(a);
    const uint64x2_t y = vreinterpretq_u64_u32(b);
    *first = vreinterpretq_u32_u64(vzip1q_u64(x, y));
    *second = vreinterpretq_u32_u64(vzip2q_u64(x, y));
}

INLINE vi vi_group_order(void)
{
    return vreinterpretq_u32_u64(vcombine_u64(vcreate_u64(0), vcreate_u64(1)));
}

/* ---- conversion -------------------------------------------------------------
 */
INLINE vi vi_load_u8(const uint8_t *p, size_t m)
{
    uint32_t bytes = 0;
    memcpy(&bytes, p, m);
    const uint16x8_t words = vmovl_u8(vcreate_u8(bytes));
    return vmovl_u16(vget_low_u16(words));
}

INLINE void vi_store_u8(uint8_t *p, vi x, size_t m)
{
    const uint16x4_t words = vmovn_u32(x);
    const uint8x8_t bytes = vmovn_u16(vcombine_u16(words, words));
    memcpy(p, &bytes, m);
}

INLINE vf vf_from_vi(vi x)
{
    return vcvtq_f32_s32(vreinterpretq_s32_u32(x));
}

INLINE vf vf_load_u8(const uint8_t *p, size_t m)
{
    return vf_from_vi(vi_load_u8(p, m));
}

INLINE uint16x4_t load_u16(const uint16_t *p, size_t m)
{
    uint16x4_t x = vdup_n_u16(0);
    memcpy(&x, p, m * sizeof(*p));
    return x;
}

INLINE void store_u16(uint16_t *p, uint16x4_t x, size_t m)
{
    memcpy(p, &x, m * sizeof(*p));
}

INLINE vf vf_load_f16(const uint16_t *p, size_t m)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(load_u16(p, m)));
}

INLINE void vf_store_f16(uint16_t *p, vf x, size_t m)
{
    store_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(x)), m);
}

INLINE vf vf_load_bf16_bits(const uint16_t *p, size_t m)
{
    return vf_of(vshll_n_u16(load_u16(p, m), 16));
}

INLINE vf vf_load_bf16(const uint16_t *p, size_t m)
{
    const vf x = vf_load_bf16_bits(p, m);
    const vi quiet = vandq_u32(vf_is_nan(x), vi_set(0x400000));
    return vf_of(vorrq_u32(bits_of(x), quiet));
}

/* ---- words ---------------------------------------------------------------
 */
INLINE vf vf_dot_pairs(vf sum, vf a, vf b)
{
    const vi high = vi_set(0xffff0000U);
    const vi x = bits_of(a), y = bits_of(b);
    sum = vf_fma(vf_of(vshlq_n_u32(x, 16)), vf_of(vshlq_n_u32(y, 16)), sum);
    return vf_fma(vf_of(vandq_u32(x, high)), vf_of(vandq_u32(y, high)), sum);
}

INLINE vi round_to_words(vf x)
{
    const vi bits = bits_of(x);
    const vi odd = vandq_u32(vshrq_n_u32(bits, 16), vi_set(1));
    const vi rounded = vaddq_u32(vaddq_u32(bits, vi_set(0x7FFF)), odd);
    const vi result =
        vi_select(vf_is_nan(x), vorrq_u32(bits, vi_set(0x400000)), rounded);
    return vshrq_n_u32(result, 16);
}

INLINE vf vf_pair(vf low, vf high)
{
    return vf_of(vsliq_n_u32(round_to_words(low), round_to_words(high), 16));
}

INLINE vf vf_pair_bits(const uint16_t *low, const uint16_t *high)
{
    return vf_of(vsliq_n_u32(vmovl_u16(load_u16(low, LANES)),
                             vmovl_u16(load_u16(high, LANES)), 16));
}

INLINE void vf_store_bf16(uint16_t *p, vf x, size_t m)
{
    store_u16(p, vmovn_u32(round_to_words(x)), m);
}

/* ---- transposition ------------------------------------------------------ */
INLINE void vf_transpose(vf r[4])
{
    const float32x4x2_t a = vtrnq_f32(r[0], r[1]);
    const float32x4x2_t b = vtrnq_f32(r[2], r[3]);
    for (int i = 0; i < 2; i++) {
        r[i] = vcombine_f32(vget_low_f32(a.val[i]), vget_low_f32(b.val[i]));
        r[i + 2] =
            vcombine_f32(vget_high_f32(a.val[i]), vget_high_f32(b.val[i]));
    }
}

#endif
