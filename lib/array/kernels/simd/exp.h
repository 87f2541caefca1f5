/*
 * e^x in f32: x = n ln 2 + r with |r| <= ln(2) / 2, a polynomial for e^r, and
 * 2^n put into the exponent. The relative error is below 2^-22 for
 * -87 <= x <= 88; below that the result is 0, above it that of 88. The
 * coefficients are a minimax fit of (e^r - 1 - r) / r^2, error 2^-28.
 */
#ifndef LS_ARRAY_KERNELS_SIMD_EXP_H
#define LS_ARRAY_KERNELS_SIMD_EXP_H

#include "array/kernels/simd/words.h"

/* e^r of |r| <= ln(2) / 2 and a little more. */
INLINE vf exp_polynomial(vf r)
{
    vf p = vf_set(0.0013814540085553928F);
    p = vf_fma(p, r, vf_set(0.008368745107533422F));
    p = vf_fma(p, r, vf_set(0.041668390785371684F));
    p = vf_fma(p, r, vf_set(0.16666520399058002F));
    p = vf_fma(p, r, vf_set(0.4999999343212036F));
    p = vf_fma(vf_mul(p, r), r, r);
    return vf_add(p, vf_set(1.0F));
}

/* r and n of an x, of which e^x = 2^n e^r. */
INLINE vf exp_remainder(vf x, vf *n)
{
    const vf log2_e = vf_set(1.44269504088896341F);
    const vf ln2_high = vf_set(0x1.62e4p-1F); /* n * ln2_high is exact */
    const vf ln2_low = vf_set(0x1.7f7d1cp-20F);
    *n = vf_round(vf_mul(x, log2_e));
    return vf_fnma(*n, ln2_low, vf_fnma(*n, ln2_high, x));
}

INLINE vf vf_exp(vf x)
{
    const float lowest = -87.0F;
    const float highest = 88.0F;
    const vm vanishes = vf_gt(vf_set(lowest), x);
    x = vf_min(vf_set(highest), vf_max(vf_set(lowest), x)); /* keeps NaN */
    vf n;
    const vf r = exp_remainder(x, &n);
    return vf_select(vanishes, vf_set(0.0F), vf_scale_2(exp_polynomial(r), n));
}

/* The same over the whole range: subnormal, 0 and infinite where e^x is. */
INLINE vf vf_exp_whole(vf x)
{
    x = vf_min(vf_set(90.0F), vf_max(vf_set(-110.0F), x)); /* keeps NaN */
    vf n;
    const vf r = exp_remainder(x, &n);
    const vf half = vf_round(vf_mul(n, vf_set(0.5F)));
    return vf_scale_2(vf_scale_2(exp_polynomial(r), half), vf_sub(n, half));
}

#endif
