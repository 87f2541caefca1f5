/*
 * The conversions that training does; the others are left to the reference.
 */
#ifndef LS_FOLD_SIMD_CONVERT_H
#define LS_FOLD_SIMD_CONVERT_H

#include "fold/levels.h"
#include "fold/simd/words.h"

#define CONVERT(name, src_type, dst_type, LOAD, STORE)                         \
    static void name(void *dst, const void *src, size_t n)                     \
    {                                                                          \
        const src_type *from = src;                                            \
        dst_type *to = dst;                                                    \
        FOR_LANES(n, { STORE(to + i, LOAD(from + i, m), m); });                \
    }

CONVERT(f32_to_bf16, float, uint16_t, vf_load, vf_store_bf16)
CONVERT(bf16_to_f32, uint16_t, float, vf_load_bf16, vf_store)
CONVERT(f32_to_f16, float, uint16_t, vf_load, vf_store_f16)
CONVERT(f16_to_f32, uint16_t, float, vf_load_f16, vf_store)
CONVERT(f16_to_bf16, uint16_t, uint16_t, vf_load_f16, vf_store_bf16)
CONVERT(bf16_to_f16, uint16_t, uint16_t, vf_load_bf16, vf_store_f16)
CONVERT(u8_to_f32, uint8_t, float, vf_load_u8, vf_store)

static void convert(void *dst, ls_dtype dst_dtype, const void *src,
                    ls_dtype src_dtype, size_t n)
{
    typedef void convert_fn(void *dst, const void *src, size_t n);
    static convert_fn *const functions[LS_DTYPE_COUNT][LS_DTYPE_COUNT] = {
        [LS_F32][LS_BF16] = f32_to_bf16, [LS_BF16][LS_F32] = bf16_to_f32,
        [LS_F32][LS_F16] = f32_to_f16,   [LS_F16][LS_F32] = f16_to_f32,
        [LS_F16][LS_BF16] = f16_to_bf16, [LS_BF16][LS_F16] = bf16_to_f16,
        [LS_U8][LS_F32] = u8_to_f32};
    convert_fn *const fn = functions[src_dtype][dst_dtype];
    if (fn)
        fn(dst, src, n);
    else
        lsi_ref_convert(dst, dst_dtype, src, src_dtype, n);
}

#endif
