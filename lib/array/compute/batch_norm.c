/* Batch normalisation; see batch_norm.h. */
#include "array/compute/batch_norm.h"
#include "observe/spans.h"

#include <math.h>

#include "array/kernels/kernels.h"

void lsi_batch_norm_forward(const lsi_batch_norm *bn, float *y)
{
    LSI_SPAN(KERNEL, "batch_norm", 8 * bn->rows * bn->cols,
             4 * bn->rows * bn->cols);
    lsi_kernels_get()->normalize_columns(y, bn->x, bn->mean, bn->inv_std,
                                         bn->weight, bn->bias, bn->rows,
                                         bn->cols);
}

void lsi_batch_norm_sums(const lsi_batch_norm *bn, const float *dy,
                         float *sum_dy, float *sum_dy_xhat)
{
    LSI_SPAN(KERNEL, "batch_norm_sums", 8 * bn->rows * bn->cols,
             4 * bn->rows * bn->cols);
    lsi_kernels_get()->batch_norm_sums(sum_dy, sum_dy_xhat, dy, bn->x, bn->mean,
                                       bn->inv_std, bn->rows, bn->cols);
}

void lsi_batch_norm_backward(const lsi_batch_norm *bn, const float *dy,
                             const float *a, const float *b, float *dx,
                             bool accumulate)
{
    LSI_SPAN(KERNEL, "batch_norm_backward", 12 * bn->rows * bn->cols,
             6 * bn->rows * bn->cols);
    lsi_kernels_get()->batch_norm_dx(dx, dy, bn->x, bn->mean, bn->inv_std,
                                     bn->weight, a, b, bn->rows, bn->cols,
                                     accumulate);
}

void lsi_batch_norm_moments(const float *x, size_t rows, size_t cols,
                            float *mean, float *m2)
{
    LSI_SPAN(KERNEL, "batch_norm_moments", 4 * rows * cols, 4 * rows * cols);
    lsi_kernels_get()->column_moments(mean, m2, x, rows, cols);
}

void lsi_batch_norm_inv_std(float *inv_std, const float *m2, double n,
                            double eps, size_t cols)
{
    for (size_t c = 0; c < cols; c++)
        inv_std[c] = (float)(1.0 / sqrt((double)m2[c] / n + eps));
}

void lsi_batch_norm_track(const lsi_running *running, const float *mean,
                          const float *variance, double divisor, double rows,
                          size_t cols)
{
    const double m = running->momentum;
    for (size_t c = 0; rows > 0 && c < cols; c++)
        running->mean[c] =
            (float)((1.0 - m) * (double)running->mean[c] + m * (double)mean[c]);
    for (size_t c = 0; rows > 1 && c < cols; c++) {
        const double unbiased = (double)variance[c] / divisor;
        running->var[c] =
            (float)((1.0 - m) * (double)running->var[c] + m * unbiased);
    }
}
