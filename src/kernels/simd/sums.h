/* Sums of a whole array, in double: lane sums, added at the end. */
#ifndef LS_KERNELS_SIMD_SUMS_H
#define LS_KERNELS_SIMD_SUMS_H

#include "kernels/simd/words.h"

void LSI_SIMD(sum)(double *out, const float *a, size_t n)
{
    vd low = vd_zero();
    vd high = vd_zero();
    FOR_LANES(n, {
        const vf x = vf_load(a + i, m);
        low = vd_add(low, vd_low(x));
        high = vd_add(high, vd_high(x));
    });
    *out = vd_sum(vd_add(low, high));
}

void LSI_SIMD(squared_distance)(double *out, const float *a, const float *b,
                                size_t n)
{
    vd low = vd_zero();
    vd high = vd_zero();
    FOR_LANES(n, {
        const vf x = vf_load(a + i, m);
        const vf y = vf_load(b + i, m);
        const vd d_low = vd_sub(vd_low(x), vd_low(y));
        const vd d_high = vd_sub(vd_high(x), vd_high(y));
        low = vd_fma(d_low, d_low, low);
        high = vd_fma(d_high, d_high, high);
    });
    *out = vd_sum(vd_add(low, high));
}

#endif
