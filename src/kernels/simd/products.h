/*
 * A row times a matrix of rows, and attention of one query, which is two such
 * products. The matrix comes from memory once: what limits them is how fast it
 * is read. Four rows at a time, two sums each, so that eight sums
 * are under way.
 */
#ifndef LS_KERNELS_SIMD_PRODUCTS_H
#define LS_KERNELS_SIMD_PRODUCTS_H

#include "kernels/simd/exp.h"
#include "kernels/simd/words.h"

enum { ROWS_AT_ONCE = 4 };

INLINE vf load_weights(const void *w, size_t i, size_t m, ls_dtype dtype)
{
    if (dtype == LS_F32)
        return vf_load((const float *)w + i, m);
    if (dtype == LS_BF16)
        return vf_load_bf16_bits((const uint16_t *)w + i, m);
    return vf_load_f16((const uint16_t *)w + i, m);
}

/* n is 4 or 1, and a row's sum the same with both. */
INLINE void few_products(float *y, const float *x, const char *w, size_t cols,
                         ls_dtype dtype, size_t n)
{
    const size_t stride =
        cols * (dtype == LS_F32 ? sizeof(float) : sizeof(uint16_t));
    vf even[ROWS_AT_ONCE];
    vf odd[ROWS_AT_ONCE];
    size_t at = 0;
    for (size_t r = 0; r < n; r++)
        even[r] = odd[r] = vf_set(0.0F);
    for (; at + 2 * LANES <= cols; at += 2 * LANES) {
        const vf a = vf_load(x + at, LANES);
        const vf b = vf_load(x + at + LANES, LANES);
#pragma GCC unroll 4
        for (size_t r = 0; r < n; r++) {
            const char *row = w + r * stride;
            even[r] = vf_fma(a, load_weights(row, at, LANES, dtype), even[r]);
            odd[r] =
                vf_fma(b, load_weights(row, at + LANES, LANES, dtype), odd[r]);
        }
    }
    FOR_LANES(cols - at, {
        const vf a = vf_load(x + at + i, m);
        for (size_t r = 0; r < n; r++)
            even[r] = vf_fma(a, load_weights(w + r * stride, at + i, m, dtype),
                             even[r]);
    });
    for (size_t r = 0; r < n; r++)
        y[r] = vf_sum(vf_add(even[r], odd[r]));
}

INLINE void all_products(float *y, const float *x, const void *w, size_t rows,
                         size_t cols, ls_dtype dtype)
{
    const char *row = w;
    const size_t stride =
        cols * (dtype == LS_F32 ? sizeof(float) : sizeof(uint16_t));
    size_t r = 0;
    for (; r + ROWS_AT_ONCE <= rows; r += ROWS_AT_ONCE)
        few_products(y + r, x, row + r * stride, cols, dtype, ROWS_AT_ONCE);
    for (; r < rows; r++)
        few_products(y + r, x, row + r * stride, cols, dtype, 1);
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
    vf sum[ROWS_AT_ONCE];
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
    for (; c + ROWS_AT_ONCE * LANES <= d; c += ROWS_AT_ONCE * LANES)
        weighted_sum(y + c, scores, v + c, n, d, ROWS_AT_ONCE, factor);
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
