/*
 * Columns that are shifted and scaled, then perhaps cut off at 0, and the
 * gradients of that: what normalisations of channels are made of. Sums are made
 * of those of LSI_COLUMN_BLOCK rows.
 */
#include <math.h>

#include "kernels/ref/ref.h"

void lsi_ref_affine_columns(float *y, const float *x,
                            const float *residual_or_null, const float *mean,
                            const float *scale, const float *bias, size_t rows,
                            size_t cols, bool relu)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++) {
            const size_t i = r * cols + c;
            float z = fmaf(x[i] - mean[c], scale[c], bias[c]);
            if (residual_or_null != NULL)
                z += residual_or_null[i];
            y[i] = relu && z < 0.0F ? 0.0F : z;
        }
}

void lsi_ref_affine_columns_sums(float *sum_dz, float *sum_dz_d,
                                 float *dz_or_null, const float *dy,
                                 const float *x, const float *y_or_null,
                                 const float *mean, const float *scale_or_null,
                                 const float *bias, size_t rows, size_t cols)
{
    for (size_t c = 0; c < cols; c++) {
        float sum = 0.0F, dot = 0.0F, block_sum = 0.0F, block_dot = 0.0F;
        for (size_t r = 0; r < rows; r++) {
            const size_t i = r * cols + c;
            const float d = x[i] - mean[c];
            float dz = dy[i];
            if (y_or_null != NULL)
                dz = y_or_null[i] > 0.0F ? dz : 0.0F;
            else if (scale_or_null != NULL)
                dz = fmaf(d, scale_or_null[c], bias[c]) > 0.0F ? dz : 0.0F;
            if (dz_or_null != NULL)
                dz_or_null[i] = dz;
            block_sum += dz;
            block_dot = fmaf(dz, d, block_dot);
            if ((r + 1) % LSI_COLUMN_BLOCK == 0 || r + 1 == rows) {
                sum += block_sum;
                dot += block_dot;
                block_sum = block_dot = 0.0F;
            }
        }
        sum_dz[c] = sum;
        sum_dz_d[c] = dot;
    }
}

void lsi_ref_affine_columns_dx(float *dx, const float *dy, const float *x,
                               const float *mean, const float *scale,
                               const float *bias_or_null, const float *p,
                               const float *q, size_t rows, size_t cols,
                               bool accumulate)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++) {
            const size_t i = r * cols + c;
            const float d = x[i] - mean[c];
            float dz = dy[i];
            if (bias_or_null != NULL)
                dz = fmaf(d, scale[c], bias_or_null[c]) > 0.0F ? dz : 0.0F;
            const float g = fmaf(scale[c], dz, fmaf(d, p[c], q[c]));
            dx[i] = accumulate ? dx[i] + g : g;
        }
}
