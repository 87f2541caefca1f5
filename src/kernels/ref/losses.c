/* Cross-entropy of rows of logits, computed in double. */
#include <math.h>

#include "kernels/ref/ref.h"

static double row_log_sum_exp(const float *x, size_t cols)
{
    double max = -INFINITY;
    for (size_t c = 0; c < cols; c++)
        max = x[c] > max ? x[c] : max;
    double total = 0.0;
    for (size_t c = 0; c < cols; c++)
        total += exp(x[c] - max);
    return max + log(total);
}

void lsi_ref_cross_entropy(float *loss, float *lse, const float *x,
                           const int64_t *labels, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++) {
        const double value = row_log_sum_exp(x + r * cols, cols);
        lse[r] = (float)value;
        loss[r] = (float)(value - x[r * cols + (size_t)labels[r]]);
    }
}

void lsi_ref_cross_entropy_backward(float *dx, const float *x, const float *lse,
                                    const int64_t *labels, float factor,
                                    size_t rows, size_t cols, bool accumulate)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++) {
            const size_t i = r * cols + c;
            const double onehot = (int64_t)c == labels[r] ? 1.0 : 0.0;
            const double p = exp((double)x[i] - lse[r]);
            const float g = (float)(factor * (p - onehot));
            dx[i] = accumulate ? dx[i] + g : g;
        }
}
