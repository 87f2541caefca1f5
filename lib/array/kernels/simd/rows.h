/*
 * Normalisation of the rows of a matrix. A row fits the first-level cache, so
 * that going over it twice costs little; each lane sums its own elements.
 */
#ifndef LS_ARRAY_KERNELS_SIMD_ROWS_H
#define LS_ARRAY_KERNELS_SIMD_ROWS_H

#include "array/kernels/simd/words.h"

INLINE float row_sum(const float *x, size_t cols)
{
    vf total = vf_set(0.0F);
    FOR_LANES(cols, { total = vf_add(total, vf_load(x + i, m)); });
    return vf_sum(total);
}

/* The sum of (x - mean)^2; lanes beyond the end add 0. */
INLINE float row_squares(const float *x, size_t cols, float mean)
{
    const vf mu = vf_set(mean);
    vf total = vf_set(0.0F);
    FOR_LANES(cols, {
        const vf d = vf_sub(vf_load_or(x + i, m, mu), mu);
        total = vf_fma(d, d, total);
    });
    return vf_sum(total);
}

void LSI_SIMD(normalize_rows)(float *y, float *mean_or_null, float *inv_std,
                              const float *x, const float *weight,
                              const float *bias_or_null, size_t rows,
                              size_t cols, float eps)
{
    const double n = (double)cols;
    for (size_t r = 0; r < rows; r++) {
        const float *row = x + r * cols;
        float *to = y + r * cols;
        const float mean =
            mean_or_null ? (float)((double)row_sum(row, cols) / n) : 0.0F;
        const double variance = (double)row_squares(row, cols, mean) / n;
        inv_std[r] = (float)(1.0 / sqrt(variance + (double)eps));
        if (mean_or_null)
            mean_or_null[r] = mean;
        const vf mu = vf_set(mean);
        const vf s = vf_set(inv_std[r]);
        FOR_LANES(cols, {
            const vf d = vf_sub(vf_load(row + i, m), mu);
            vf out = vf_mul(vf_mul(d, s), vf_load(weight + i, m));
            if (bias_or_null)
                out = vf_add(out, vf_load(bias_or_null + i, m));
            vf_store(to + i, out, m);
        });
    }
}

/* One row on the way back. */
typedef struct norm_row {
    const float *dy, *x, *weight;
    float mean, inv_std;
} norm_row;

INLINE vf norm_row_x_hat(const norm_row *row, size_t i, size_t m)
{
    const vf d = vf_sub(vf_load(row->x + i, m), vf_set(row->mean));
    return vf_mul(d, vf_set(row->inv_std));
}

INLINE vf norm_row_g(const norm_row *row, size_t i, size_t m)
{
    return vf_mul(vf_load(row->weight + i, m), vf_load(row->dy + i, m));
}

INLINE void norm_row_dx(float *dx, const norm_row *row, size_t cols,
                        bool centred, bool accumulate)
{
    vf sum = vf_set(0.0F);
    vf sum_x_hat = vf_set(0.0F);
    FOR_LANES(cols, {
        const vf g = norm_row_g(row, i, m);
        sum = vf_add(sum, g);
        sum_x_hat = vf_fma(g, norm_row_x_hat(row, i, m), sum_x_hat);
    });
    const vf mean_g = vf_set(centred ? vf_sum(sum) / (float)cols : 0.0F);
    const vf mean_g_x_hat = vf_set(vf_sum(sum_x_hat) / (float)cols);
    const vf s = vf_set(row->inv_std);
    FOR_LANES(cols, {
        const vf g = vf_sub(norm_row_g(row, i, m), mean_g);
        const vf x_hat = norm_row_x_hat(row, i, m);
        vf out = vf_mul(s, vf_fnma(x_hat, mean_g_x_hat, g));
        if (accumulate)
            out = vf_add(vf_load(dx + i, m), out);
        vf_store(dx + i, out, m);
    });
}

/* Adds dy x_hat and dy to the sums over rows. */
INLINE void norm_row_sums(float *dweight, float *dbias_or_null,
                          const norm_row *row, size_t cols)
{
    FOR_LANES(cols, {
        const vf dy = vf_load(row->dy + i, m);
        const vf old = vf_load(dweight + i, m);
        vf_store(dweight + i, vf_fma(dy, norm_row_x_hat(row, i, m), old), m);
        if (dbias_or_null)
            vf_store(dbias_or_null + i,
                     vf_add(vf_load(dbias_or_null + i, m), dy), m);
    });
}

void LSI_SIMD(normalize_rows_backward)(
    float *dx, float *dweight, float *dbias_or_null, const float *dy,
    const float *x, const float *mean_or_null, const float *inv_std,
    const float *weight, size_t rows, size_t cols, bool accumulate)
{
    memset(dweight, 0, cols * sizeof(*dweight));
    if (dbias_or_null)
        memset(dbias_or_null, 0, cols * sizeof(*dbias_or_null));
    for (size_t r = 0; r < rows; r++) {
        const norm_row row = {.dy = dy + r * cols,
                              .x = x + r * cols,
                              .weight = weight,
                              .mean = mean_or_null ? mean_or_null[r] : 0.0F,
                              .inv_std = inv_std[r]};
        norm_row_sums(dweight, dbias_or_null, &row, cols);
        norm_row_dx(dx + r * cols, &row, cols, mean_or_null != NULL,
                    accumulate);
    }
}

#endif
