/*
 * A row times a matrix of rows, and attention of one query, which is two such
 * products. The matrix comes from memory once, and the speed of this read is
 * the limit.
 */
#ifndef LS_ARRAY_KERNELS_SIMD_PRODUCTS_H
#define LS_ARRAY_KERNELS_SIMD_PRODUCTS_H

#include "array/kernels/simd/exp.h"
#include "array/kernels/simd/words.h"

enum { SUMS = 4 };

INLINE vf load_weights(const void *w, size_t i, size_t m, ls_dtype dtype)
{
    if (dtype == LS_F32)
        return vf_load((const float *)w + i, m);
    if (dtype == LS_BF16)
        return vf_load_bf16_bits((const uint16_t *)w + i, m);
    return vf_load_f16((const uint16_t *)w + i, m);
}

/*
 * One row after another, the best order for reading memory; four sums, so that
 * four are in flight. Half types are consumed faster than processors prefetch
 * by themselves. So the rows of half types are prefetched this many bytes
 * ahead.
 */
enum { AHEAD = 4096 };

INLINE float one_product(const float *x, const char *w, size_t cols,
                         ls_dtype dtype)
{
    vf sum[SUMS];
    size_t at = 0;
    for (size_t j = 0; j < SUMS; j++)
        sum[j] = vf_set(0.0F);
    for (; at + SUMS * LANES <= cols; at += SUMS * LANES) {
        if (dtype != LS_F32)
            for (size_t b = 0; b < 2 * SUMS * LANES; b += 64)
                __builtin_prefetch(w + 2 * at + b + AHEAD);
#pragma GCC unroll 4
        for (size_t j = 0; j < SUMS; j++)
            sum[j] =
                vf_fma(vf_load(x + at + j * LANES, LANES),
                       load_weights(w, at + j * LANES, LANES, dtype), sum[j]);
    }
    FOR_LANES(cols - at, {
        sum[0] = vf_fma(vf_load(x + at + i, m),
                        load_weights(w, at + i, m, dtype), sum[0]);
    });
    return vf_sum(vf_add(vf_add(sum[0], sum[1]), vf_add(sum[2], sum[3])));
}

INLINE void all_products(float *y, const float *x, const void *w, size_t rows,
                         size_t cols, ls_dtype dtype)
{
    const size_t stride =
        cols * (dtype == LS_F32 ? sizeof(float) : sizeof(uint16_t));
    for (size_t r = 0; r < rows; r++)
        y[r] = one_product(x, (const char *)w + r * stride, cols, dtype);
}

void LSI_SIMD(row_products)(float *y, const float *x, const void *w,
                            ls_dtype w_dtype, size_t rows, size_t cols)
{
    if (w_dtype == LS_F32)
        all_products(y, x, w, rows, cols, LS_F32);
    else if (w_dtype == LS_BF16)
        all_products(y, x, w, rows, cols, LS_BF16);
    else
        all_products(y, x, w, rows, cols, LS_F16);
}

/* Scores become their exponentials; returns the sum of these. */
INLINE float exponentials(float *scores, size_t n, float scale)
{
    vf most = vf_set(-INFINITY);
    vf sum = vf_set(0.0F);
    FOR_LANES(n, { most = vf_max(vf_load_or(scores + i, m, most), most); });
    const vf largest = vf_set(vf_max_lane(most));
    const vf factor = vf_set(scale);
    FOR_LANES(n, {
        const vf x =
            vf_sub(vf_load_or(scores + i, m, vf_set(-INFINITY)), largest);
        const vf e = vf_exp(vf_mul(x, factor));
        vf_store(scores + i, e, m);
        sum = vf_add(sum, e);
    });
    return vf_sum(sum);
}

/* y[c] = factor * sum over r of p[r] v[r][c], for c below vecs vectors. */
INLINE void weighted_sum(float *y, const float *p, const float *v, size_t n,
                         size_t d, size_t vecs, float factor)
{
    vf sum[SUMS];
    for (size_t j = 0; j < vecs; j++)
        sum[j] = vf_set(0.0F);
    for (size_t r = 0; r < n; r++) {
        const vf weight = vf_set(p[r]);
        for (size_t j = 0; j < vecs; j++)
            sum[j] =
                vf_fma(weight, vf_load(v + r * d + j * LANES, LANES), sum[j]);
    }
    for (size_t j = 0; j < vecs; j++)
        vf_store(y + j * LANES, vf_mul(sum[j], vf_set(factor)), LANES);
}

void LSI_SIMD(attend)(float *y, float *scores, const float *q, const float *k,
                      const float *v, size_t n, size_t d, float scale)
{
    all_products(scores, q, k, n, d, LS_F32);
    const float total = exponentials(scores, n, scale);
    const float factor = n > 0 ? 1.0F / total : 0.0F;
    size_t c = 0;
    for (; c + SUMS * LANES <= d; c += SUMS * LANES)
        weighted_sum(y + c, scores, v + c, n, d, SUMS, factor);
    for (; c + LANES <= d; c += LANES)
        weighted_sum(y + c, scores, v + c, n, d, 1, factor);
    if (c == d)
        return;
    vf sum = vf_set(0.0F);
    for (size_t r = 0; r < n; r++)
        sum = vf_fma(vf_set(scores[r]), vf_load(v + r * d + c, d - c), sum);
    vf_store(y + c, vf_mul(sum, vf_set(factor)), d - c);
}

#endif
