/* A row times a matrix of rows, and attention of one query, in double. */
#include <math.h>

#include "array/kernels/ref/ref.h"
#include "base/half.h"
#include "base/math.h"

static float weight_at(const void *w, ls_dtype dtype, size_t i)
{
    if (dtype == LS_F32)
        return ((const float *)w)[i];
    const uint16_t half = ((const uint16_t *)w)[i];
    return dtype == LS_BF16 ? lsi_bf16_to_f32(half) : lsi_f16_to_f32(half);
}

void lsi_ref_row_products(float *y, const float *x, const void *w,
                          ls_dtype w_dtype, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++) {
        double sum = 0.0;
        for (size_t c = 0; c < cols; c++)
            sum += (double)x[c] * (double)weight_at(w, w_dtype, r * cols + c);
        y[r] = (float)sum;
    }
}

void lsi_ref_attend(float *y, float *scores, const float *q, const float *k,
                    const float *v, size_t n, size_t d, float scale)
{
    float most = -INFINITY;
    double total = 0.0;
    lsi_ref_row_products(scores, q, k, LS_F32, n, d);
    for (size_t r = 0; r < n; r++)
        most = scores[r] > most ? scores[r] : most;
    for (size_t r = 0; r < n; r++) {
        scores[r] = (float)lsi_exp((double)(scores[r] - most) * (double)scale);
        total += (double)scores[r];
    }
    for (size_t c = 0; c < d; c++) {
        double sum = 0.0;
        for (size_t r = 0; r < n; r++)
            sum += (double)scores[r] * (double)v[r * d + c];
        y[c] = n > 0 ? (float)(sum / total) : 0.0F;
    }
}
