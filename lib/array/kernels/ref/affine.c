/*
 * Columns that are shifted and scaled, then perhaps cut off at 0, and their
 * gradients, for normalisations of channels. Sums are sums of the sums of
 * LSI_COLUMN_BLOCK rows.
 */
#include <math.h>

#include "array/kernels/ref/ref.h"
#include "base/half.h"

static float get(const void *a, size_t i, bool half)
{
    return half ? lsi_bf16_to_f32(((const uint16_t *)a)[i])
                : ((const float *)a)[i];
}

static void put(void *a, size_t i, float value, bool half)
{
    if (half)
        ((uint16_t *)a)[i] = lsi_bf16_from_f32(value);
    else
        ((float *)a)[i] = value;
}

void lsi_ref_affine_columns(void *y, const void *x,
                            const void *residual_or_null, const float *mean,
                            const float *scale, const float *bias, size_t rows,
                            size_t cols, bool relu, bool half)
{
    for (size_t i = 0; i < rows * cols; i++) {
        const size_t c = i % cols;
        float z = fmaf(get(x, i, half) - mean[c], scale[c], bias[c]);
        if (residual_or_null != NULL)
            z += get(residual_or_null, i, half);
        put(y, i, relu && z < 0.0F ? 0.0F : z, half);
    }
}

void lsi_ref_affine_columns_sums(float *sum_dz, float *sum_dz_d,
                                 void *dz_or_null, const void *dy,
                                 const void *x, const void *y_or_null,
                                 const float *mean, const float *scale_or_null,
                                 const float *bias, size_t rows, size_t cols,
                                 bool half)
{
    for (size_t c = 0; c < cols; c++) {
        float sum = 0.0F, dot = 0.0F, block_sum = 0.0F, block_dot = 0.0F;
        for (size_t r = 0; r < rows; r++) {
            const size_t i = r * cols + c;
            const float d = get(x, i, half) - mean[c];
            float dz = get(dy, i, half);
            if (y_or_null != NULL)
                dz = get(y_or_null, i, half) > 0.0F ? dz : 0.0F;
            else if (scale_or_null != NULL)
                dz = fmaf(d, scale_or_null[c], bias[c]) > 0.0F ? dz : 0.0F;
            if (dz_or_null != NULL)
                put(dz_or_null, i, dz, half);
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

void lsi_ref_affine_columns_dx(void *dx, const void *dy, const void *x,
                               const float *mean, const float *scale,
                               const float *bias_or_null, const float *p,
                               const float *q, size_t rows, size_t cols,
                               bool half)
{
    for (size_t i = 0; i < rows * cols; i++) {
        const size_t c = i % cols;
        const float d = get(x, i, half) - mean[c];
        float dz = get(dy, i, half);
        if (bias_or_null != NULL)
            dz = fmaf(d, scale[c], bias_or_null[c]) > 0.0F ? dz : 0.0F;
        put(dx, i, fmaf(scale[c], dz, fmaf(d, p[c], q[c])), half);
    }
}
