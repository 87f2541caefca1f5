/* Cross-entropy of rows of logits and of two classes, in double. */
#include <math.h>

#include "array/kernels/ref/ref.h"
#include "base/math.h"

static float row_max(const float *x, size_t cols)
{
    float max = -INFINITY;
    for (size_t c = 0; c < cols; c++)
        max = x[c] > max ? x[c] : max;
    return max;
}

static double row_sum_exp(const float *x, size_t cols, float max)
{
    double total = 0.0;
    for (size_t c = 0; c < cols; c++)
        total += lsi_exp((double)x[c] - max);
    return total;
}

static double row_mean(const float *x, size_t cols)
{
    double total = 0.0;
    for (size_t c = 0; c < cols; c++)
        total += (double)x[c];
    return total / (double)cols;
}

void lsi_ref_cross_entropy(float *loss, lsi_softmax_row *saved, const float *x,
                           const int64_t *labels, double smoothing, size_t rows,
                           size_t cols)
{
    for (size_t r = 0; r < rows; r++) {
        const float *row = x + r * cols;
        const float max = row_max(row, cols);
        const double total = row_sum_exp(row, cols, max);
        double hit = (double)row[labels[r]];
        if (smoothing > 0.0)
            hit = (1.0 - smoothing) * hit + smoothing * row_mean(row, cols);
        saved[r] = (lsi_softmax_row){max, (float)(1.0 / total)};
        loss[r] = (float)(max - hit + lsi_ln(total));
    }
}

void lsi_ref_cross_entropy_backward(float *dx, const float *x,
                                    const lsi_softmax_row *saved,
                                    const int64_t *labels, double smoothing,
                                    float factor, size_t rows, size_t cols,
                                    bool accumulate)
{
    const double miss = smoothing / (double)cols;
    const double hit = 1.0 - smoothing + miss;
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++) {
            const size_t i = r * cols + c;
            const double wanted = (int64_t)c == labels[r] ? hit : miss;
            const double p =
                lsi_exp((double)x[i] - saved[r].max) * saved[r].scale;
            const float g = (float)(factor * (p - wanted));
            dx[i] = accumulate ? dx[i] + g : g;
        }
}

void lsi_ref_bce_with_logits(double *out, const float *x, const float *t,
                             size_t n)
{
    *out = 0.0;
    for (size_t i = 0; i < n; i++) {
        const double logit = (double)x[i];
        *out += fmax(logit, 0.0) - logit * (double)t[i] +
                lsi_log1p(lsi_exp(-fabs(logit)));
    }
}

void lsi_ref_bce_with_logits_backward(float *dx, const float *x, const float *t,
                                      float factor, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const double s = 1.0 / (1.0 + lsi_exp(-(double)x[i]));
        dx[i] = (float)((double)factor * (s - (double)t[i]));
    }
}
