/*
 * Logarithms in f32. ln x = e ln 2 + ln m with sqrt(1/2) <= m < sqrt(2) and the
 * polynomial of Cephes' logf for ln m (Moshier, netlib.org/cephes); the
 * relative error is below 2^-22. ln(1 + u) = 2 atanh(u / (2 + u)), a minimax
 * fit.
 */
#ifndef LS_ARRAY_KERNELS_SIMD_LOG_H
#define LS_ARRAY_KERNELS_SIMD_LOG_H

#include "array/kernels/simd/words.h"

/* ln(1 + f) - f of sqrt(1/2) - 1 <= f < sqrt(2) - 1. */
INLINE vf log_polynomial(vf f)
{
    const vf square = vf_mul(f, f);
    vf p = vf_set(7.0376836292e-2F);
    p = vf_fma(p, f, vf_set(-1.1514610310e-1F));
    p = vf_fma(p, f, vf_set(1.1676998740e-1F));
    p = vf_fma(p, f, vf_set(-1.2420140846e-1F));
    p = vf_fma(p, f, vf_set(1.4249322787e-1F));
    p = vf_fma(p, f, vf_set(-1.6668057665e-1F));
    p = vf_fma(p, f, vf_set(2.0000714765e-1F));
    p = vf_fma(p, f, vf_set(-2.4999993993e-1F));
    p = vf_fma(p, f, vf_set(3.3333331174e-1F));
    p = vf_fma(p, f, vf_set(-0.5F));
    return vf_mul(p, square);
}

/* -infinity for 0, NaN for numbers below. */
INLINE vf vf_log(vf x)
{
    const vf zero = vf_set(0.0F), half = vf_set(0.5F), given = x;
    const vm small = vf_gt(vf_set(0x1p-64F), x);
    const vm large = vf_gt(x, vf_set(0x1p64F));
    x = vf_select(small, vf_mul(x, vf_set(0x1p64F)), x);
    x = vf_select(large, vf_mul(x, vf_set(0x1p-64F)), x);
    vf e = vf_exponent(x);
    vf m = vf_scale_2(x, vf_sub(zero, e));
    const vm above = vf_gt(m, vf_set(1.41421356237F));
    m = vf_select(above, vf_mul(m, half), m);
    e = vf_add(e, vf_select(above, vf_set(1.0F), zero));
    e = vf_add(e, vf_select(small, vf_set(-64.0F), zero));
    e = vf_add(e, vf_select(large, vf_set(64.0F), zero));
    const vf f = vf_sub(m, vf_set(1.0F));
    vf y = vf_fma(e, vf_set(-2.12194440e-4F), log_polynomial(f));
    y = vf_fma(e, vf_set(0.693359375F), vf_add(f, y)); /* e's part is exact */
    y = vf_select(vf_gt(given, zero), y, vf_set(-INFINITY));
    y = vf_select(vf_gt(zero, given), vf_set(NAN), y);
    y = vf_select(vf_is_nan(given), given, y);
    return vf_select(vf_gt(given, vf_set(0x1.fffffep127F)), given, y);
}

/* ln(1 + u) of 0 <= u <= 1 */
INLINE vf vf_log1p(vf u)
{
    const vf s = vf_div(u, vf_add(u, vf_set(2.0F)));
    const vf z = vf_mul(s, s);
    vf p = vf_set(0.13485512137413025F);
    p = vf_fma(p, z, vf_set(0.1410692185163498F));
    p = vf_fma(p, z, vf_set(0.2000439316034317F));
    p = vf_fma(p, z, vf_set(0.3333331346511841F));
    p = vf_mul(p, z);
    const vf twice = vf_add(s, s);
    return vf_fma(p, twice, twice);
}

#endif
