/*
 * Winograd's algorithm for f32 in plain C, with vectors of one lane. Products
 * and sums that other levels fuse are fused.
 */
#define EXACT_WORDS
#include "array/kernels/ref/vector.h"

#define LSI_SIMD(name) lsi_ref_##name

INLINE uint32_t vi_load_u8(const uint8_t *p, size_t m)
{
    (void)m;
    return *p;
}

INLINE vf vf_from_vi(uint32_t x)
{
    return (vf)x;
}

#include "array/kernels/simd/winograd4.h"

const lsi_winograd4_ops lsi_winograd4_ref = WINOGRAD4_OPS(LSI_LAYOUT_PLAIN);
