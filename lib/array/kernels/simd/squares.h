/* Sums of squares of blocks, whose order is that of 16 lanes at every level. */
#ifndef LS_ARRAY_KERNELS_SIMD_SQUARES_H
#define LS_ARRAY_KERNELS_SIMD_SQUARES_H

#include "array/kernels/simd/words.h"

/* Squares of floats are exact in double, so that fusing them changes nothing.
 */
INLINE double squares_of_block(const float *a, size_t n)
{
    enum { VECTORS = 16 / LANES }; /* that hold the 16 sums */
    vd low[VECTORS], high[VECTORS];
    for (int k = 0; k < VECTORS; k++)
        low[k] = high[k] = vd_zero();
    for (size_t i = 0; i < n;) {
        for (int k = 0; k < VECTORS && i < n; k++, i += LANES) {
            const vf x = vf_load(a + i, smaller(n - i, LANES));
            low[k] = vd_fma(vd_low(x), vd_low(x), low[k]);
            high[k] = vd_fma(vd_high(x), vd_high(x), high[k]);
        }
    }
    for (int half = VECTORS / 2; half > 0; half /= 2)
        for (int k = 0; k < half; k++) {
            low[k] = vd_add(low[k], low[k + half]);
            high[k] = vd_add(high[k], high[k + half]);
        }
    return vd_sum(vd_add(low[0], high[0]));
}

void LSI_SIMD(squares)(double *out, const float *a, size_t n)
{
    for (; n > LSI_SQUARES_BLOCK; n -= LSI_SQUARES_BLOCK) {
        *out++ = squares_of_block(a, LSI_SQUARES_BLOCK);
        a += LSI_SQUARES_BLOCK;
    }
    if (n > 0)
        *out = squares_of_block(a, n);
}

#endif
