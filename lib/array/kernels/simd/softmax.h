/* Softmax of the rows of a matrix, and its logarithm. */
#ifndef LS_ARRAY_KERNELS_SIMD_SOFTMAX_H
#define LS_ARRAY_KERNELS_SIMD_SOFTMAX_H

#include "array/kernels/simd/losses.h"

void LSI_SIMD(softmax)(float *y, const float *x, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++, x += cols, y += cols) {
        const vf shift = vf_set(row_max(x, cols));
        vf total = vf_set(0.0F);
        FOR_LANES(cols, {
            const vf logits = vf_load_or(x + i, m, vf_set(-INFINITY));
            const vf e = vf_exp(vf_sub(logits, shift));
            total = vf_add(total, e);
            vf_store(y + i, e, m);
        });
        const vf factor = vf_set(1.0F / vf_sum(total));
        FOR_LANES(cols,
                  { vf_store(y + i, vf_mul(vf_load(y + i, m), factor), m); });
    }
}

void LSI_SIMD(softmax_backward)(float *dx, const float *dy, const float *y,
                                size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++, dx += cols, dy += cols, y += cols) {
        vf total = vf_set(0.0F);
        FOR_LANES(cols, {
            total = vf_fma(vf_load(dy + i, m), vf_load(y + i, m), total);
        });
        const vf sum = vf_set(vf_sum(total));
        FOR_LANES(cols, {
            const vf g = vf_sub(vf_load(dy + i, m), sum);
            vf_store(dx + i, vf_mul(vf_load(y + i, m), g), m);
        });
    }
}

void LSI_SIMD(log_softmax)(float *y, const float *x, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++, x += cols, y += cols) {
        const float max = row_max(x, cols);
        const float rest = (float)lsi_ln((double)row_sum_exp(x, cols, max));
        const vf shift = vf_set(max), log_sum = vf_set(rest);
        FOR_LANES(cols, {
            const vf d = vf_sub(vf_load(x + i, m), shift);
            vf_store(y + i, vf_sub(d, log_sum), m);
        });
    }
}

void LSI_SIMD(log_softmax_backward)(float *dx, const float *dy, const float *y,
                                    size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++, dx += cols, dy += cols, y += cols) {
        vf total = vf_set(0.0F);
        FOR_LANES(cols, { total = vf_add(total, vf_load(dy + i, m)); });
        const vf sum = vf_set(vf_sum(total));
        FOR_LANES(cols, {
            const vf p = vf_exp(vf_load(y + i, m));
            vf_store(dx + i, vf_fnma(p, sum, vf_load(dy + i, m)), m);
        });
    }
}

#endif
