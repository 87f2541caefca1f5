/*
 * Kernels over the columns of a (rows, cols) matrix. Sums over rows are made
 * of sums of LSI_COLUMN_BLOCK rows, so that the rounding error grows with the
 * number of blocks and not with the number of rows.
 */
#include <math.h>

#include "array/kernels/ref/ref.h"
#include "base/half.h"

/* Of f32, or of bf16. */
static float get(const void *a, size_t i, bool half)
{
    return half ? lsi_bf16_to_f32(((const uint16_t *)a)[i])
                : ((const float *)a)[i];
}

/* total + the block's sum, which starts again at 0. */
static void close_block(float *total, float *block, size_t row)
{
    if ((row + 1) % LSI_COLUMN_BLOCK == 0) {
        *total += *block;
        *block = 0.0F;
    }
}

static float column_total(const void *a, size_t c, size_t rows, size_t cols,
                          bool half)
{
    float total = 0.0F;
    float block = 0.0F;
    for (size_t r = 0; r < rows; r++) {
        block += get(a, r * cols + c, half);
        close_block(&total, &block, r);
    }
    return total + block;
}

void lsi_ref_column_sum(float *out, const float *a, size_t rows, size_t cols,
                        size_t ld, bool accumulate)
{
    for (size_t c = 0; c < cols; c++) {
        const float total = column_total(a, c, rows, ld, false);
        out[c] = accumulate ? out[c] + total : total;
    }
}

/* Sums of d = a - mean and of d^2. */
static float column_m2(const void *a, size_t c, float mean, size_t rows,
                       size_t cols, bool half, float *shift)
{
    float total = 0.0F, total_d = 0.0F;
    float block = 0.0F, block_d = 0.0F;
    for (size_t r = 0; r < rows; r++) {
        const float d = get(a, r * cols + c, half) - mean;
        block = fmaf(d, d, block);
        block_d += d;
        close_block(&total, &block, r);
        close_block(&total_d, &block_d, r);
    }
    *shift = total_d + block_d;
    return total + block;
}

static void column_moments(float *mean, float *m2, const void *a, size_t rows,
                           size_t cols, bool half)
{
    const float n = rows > 0 ? (float)rows : 1.0F;
    for (size_t c = 0; c < cols; c++) {
        float shift;
        const float first = column_total(a, c, rows, cols, half) / n;
        const float total = column_m2(a, c, first, rows, cols, half, &shift);
        const float missing = shift / n;
        const float corrected = fmaf(-shift, missing, total);
        mean[c] = first + missing;
        m2[c] = corrected < 0.0F ? 0.0F : corrected;
    }
}

void lsi_ref_column_moments(float *mean, float *m2, const float *a, size_t rows,
                            size_t cols)
{
    column_moments(mean, m2, a, rows, cols, false);
}

void lsi_ref_column_moments_bf16(float *mean, float *m2, const uint16_t *a,
                                 size_t rows, size_t cols)
{
    column_moments(mean, m2, a, rows, cols, true);
}

void lsi_ref_normalize_columns(float *y, const float *a, const float *mean,
                               const float *inv_std,
                               const float *weight_or_null,
                               const float *bias_or_null, size_t rows,
                               size_t cols)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++) {
            const float w = weight_or_null ? weight_or_null[c] : 1.0F;
            const float b = bias_or_null ? bias_or_null[c] : 0.0F;
            const float x_hat = (a[r * cols + c] - mean[c]) * inv_std[c];
            y[r * cols + c] = fmaf(x_hat, w, b);
        }
}

void lsi_ref_batch_norm_sums(float *sum_dy, float *sum_dy_xhat, const float *dy,
                             const float *x, const float *mean,
                             const float *inv_std, size_t rows, size_t cols)
{
    for (size_t c = 0; c < cols; c++) {
        float total = 0.0F;
        float block = 0.0F;
        for (size_t r = 0; r < rows; r++) {
            const float x_hat = (x[r * cols + c] - mean[c]) * inv_std[c];
            block = fmaf(dy[r * cols + c], x_hat, block);
            close_block(&total, &block, r);
        }
        sum_dy[c] = column_total(dy, c, rows, cols, false);
        sum_dy_xhat[c] = total + block;
    }
}

void lsi_ref_batch_norm_dx(float *dx, const float *dy, const float *x,
                           const float *mean, const float *inv_std,
                           const float *weight_or_null, const float *a,
                           const float *b, size_t rows, size_t cols,
                           bool accumulate)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++) {
            const size_t i = r * cols + c;
            const float w = weight_or_null ? weight_or_null[c] : 1.0F;
            const float x_hat = (x[i] - mean[c]) * inv_std[c];
            const float g = inv_std[c] * w * fmaf(-x_hat, b[c], dy[i] - a[c]);
            dx[i] = accumulate ? dx[i] + g : g;
        }
}
