/*
 * Sums of a whole array, in double: lane sums, added at the end; and its
 * largest element.
 */
#ifndef LS_ARRAY_KERNELS_SIMD_SUMS_H
#define LS_ARRAY_KERNELS_SIMD_SUMS_H

#include "array/kernels/simd/words.h"

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

/* Four vectors of sums, so that one addition need not wait for another. */
void LSI_SIMD(row_sum)(double *out, const float *a, size_t n)
{
    enum { SUMS = 4 };
    vf sums[SUMS];
    size_t at = 0;
    for (int s = 0; s < SUMS; s++)
        sums[s] = vf_set(0.0F);
    for (; at + SUMS * LANES <= n; at += SUMS * LANES)
        for (int s = 0; s < SUMS; s++)
            sums[s] =
                vf_add(sums[s], vf_load(a + at + (size_t)s * LANES, LANES));
    FOR_LANES(n - at, { sums[0] = vf_add(sums[0], vf_load(a + at + i, m)); });
    const vf total = vf_add(vf_add(sums[0], sums[1]), vf_add(sums[2], sums[3]));
    *out = (double)vf_sum(total);
}

/* vf_max never returns NaN, so NaN is looked for separately. */
void LSI_SIMD(max)(float *out, const float *a, size_t n)
{
    const vf least = vf_set(-INFINITY);
    vf most = least;
    vf nan = vf_set(0.0F); /* NaN where there was one */
    FOR_LANES(n, {
        const vf x = vf_load_or(a + i, m, least);
        most = vf_max(x, most);
        nan = vf_select(vf_is_nan(x), x, nan);
    });
    const float seen = vf_sum(nan);
    *out = isnan(seen) ? seen : vf_max_lane(most);
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
