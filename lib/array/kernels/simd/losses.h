/* Cross-entropy of rows of logits, and of two classes each. */
#ifndef LS_ARRAY_KERNELS_SIMD_LOSSES_H
#define LS_ARRAY_KERNELS_SIMD_LOSSES_H

#include "array/kernels/simd/activations.h"
#include "array/kernels/simd/exp.h"
#include "array/kernels/simd/log.h"
#include "array/kernels/simd/sums.h"
#include "base/math.h"

INLINE float row_max(const float *x, size_t cols)
{
    vf max = vf_set(-INFINITY);
    FOR_LANES(cols,
              { max = vf_max(vf_load_or(x + i, m, vf_set(-INFINITY)), max); });
    return vf_max_lane(max);
}

/* The sum of e^(x - max); lanes beyond the end add e^-inf. */
INLINE float row_sum_exp(const float *x, size_t cols, float max)
{
    const vf shift = vf_set(max);
    vf total = vf_set(0.0F);
    FOR_LANES(cols, {
        const vf logits = vf_load_or(x + i, m, vf_set(-INFINITY));
        total = vf_add(total, vf_exp(vf_sub(logits, shift)));
    });
    return vf_sum(total);
}

void LSI_SIMD(cross_entropy)(float *loss, lsi_softmax_row *saved,
                             const float *x, const int64_t *labels,
                             double smoothing, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++) {
        const float *row = x + r * cols;
        const float max = row_max(row, cols);
        const double total = (double)row_sum_exp(row, cols, max);
        double hit = (double)row[labels[r]], sum = 0.0;
        if (smoothing > 0.0) {
            LSI_SIMD(sum)(&sum, row, cols);
            hit = (1.0 - smoothing) * hit + smoothing * (sum / (double)cols);
        }
        saved[r] = (lsi_softmax_row){max, (float)(1.0 / total)};
        loss[r] = (float)(max - hit + lsi_ln(total));
    }
}

/* The label's element is computed in double: p - 1 may cancel. */
void LSI_SIMD(cross_entropy_backward)(float *dx, const float *x,
                                      const lsi_softmax_row *saved,
                                      const int64_t *labels, double smoothing,
                                      float factor, size_t rows, size_t cols,
                                      bool accumulate)
{
    const double each = smoothing / (double)cols;
    const double hit = 1.0 - smoothing + each;
    const vf miss = vf_set((float)(factor * each));
    for (size_t r = 0; r < rows; r++) {
        const float *row = x + r * cols;
        float *out = dx + r * cols;
        const vf shift = vf_set(saved[r].max);
        const vf scale = vf_set(factor * saved[r].scale);
        const float old = accumulate ? out[labels[r]] : 0.0F;
        const double p =
            lsi_exp((double)row[labels[r]] - saved[r].max) * saved[r].scale;
        FOR_LANES(cols, {
            const vf logits = vf_load(row + i, m);
            vf g = vf_fms(vf_exp(vf_sub(logits, shift)), scale, miss);
            if (accumulate)
                g = vf_add(vf_load(out + i, m), g);
            vf_store(out + i, g, m);
        });
        out[labels[r]] = old + (float)(factor * (p - hit));
    }
}

/* Lanes beyond the end have a logit far below 0 and the target 0: no loss. */
void LSI_SIMD(bce_with_logits)(double *out, const float *x, const float *t,
                               size_t n)
{
    const vf zero = vf_set(0.0F), nothing = vf_set(-1e30F);
    vd low = vd_zero(), high = vd_zero();
    FOR_LANES(n, {
        const vf logit = vf_load_or(x + i, m, nothing);
        const vf positive = vf_max(zero, logit);
        const vf size = vf_max(vf_sub(zero, logit), logit);
        const vf rest = vf_log1p(vf_exp(vf_sub(zero, size)));
        const vf linear = vf_fnma(logit, vf_load(t + i, m), positive);
        const vf loss = vf_add(linear, rest);
        low = vd_add(low, vd_low(loss));
        high = vd_add(high, vd_high(loss));
    });
    *out = vd_sum(vd_add(low, high));
}

void LSI_SIMD(bce_with_logits_backward)(float *dx, const float *x,
                                        const float *t, float factor, size_t n)
{
    const vf f = vf_set(factor);
    FOR_LANES(n, {
        const vf s = sigmoid_of(vf_load(x + i, m)).s;
        vf_store(dx + i, vf_mul(vf_sub(s, vf_load(t + i, m)), f), m);
    });
}

#endif
