/*
 * e^x in f32: x = n ln 2 + r with |r| <= ln(2) / 2, a polynomial for e^r, and
 * 2^n put into the exponent. The relative error is below 2^-22 for
 * -87 <= x <= 88; below that the result is 0, above it that of 88. The
 * coefficients are a minimax fit of (e^r - 1 - r) / r^2, error 2^-28.
 */
#ifndef LS_KERNELS_SIMD_EXP_H
#define LS_KERNELS_SIMD_EXP_H

#include "kernels/simd/words.h"

INLINE vf vf_exp(vf x)
{
    const float lowest = -87.0F;
    const float highest = 88.0F;
    const vf log2_e = vf_set(1.44269504088896341F);
    const vf ln2_high = vf_set(0x1.62e4p-1F); /* n * ln2_high is exact */
    const vf ln2_low = vf_set(0x1.7f7d1cp-20F);
    const vm vanishes = vf_gt(vf_set(lowest), x);
    x = vf_min(vf_set(highest), vf_max(vf_set(lowest), x)); /* keeps NaN */
    const vf n = vf_round(vf_mul(x, log2_e));
    const vf r = vf_fnma(n, ln2_low, vf_fnma(n, ln2_high, x));
    vf p = vf_set(0.0013814540085553928F);
    p = vf_fma(p, r, vf_set(0.008368745107533422F));
    p = vf_fma(p, r, vf_set(0.041668390785371684F));
    p = vf_fma(p, r, vf_set(0.16666520399058002F));
    p = vf_fma(p, r, vf_set(0.4999999343212036F));
    p = vf_fma(vf_mul(p, r), r, r);
    p = vf_add(p, vf_set(1.0F));
    return vf_select(vanishes, vf_set(0.0F), vf_scale_2(p, n));
}

#endif
