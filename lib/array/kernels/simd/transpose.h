/* The transpose of a matrix, in squares of LANES x LANES. */
#ifndef LS_ARRAY_KERNELS_SIMD_TRANSPOSE_H
#define LS_ARRAY_KERNELS_SIMD_TRANSPOSE_H

#include "array/kernels/simd/words.h"

INLINE void transpose_square(float *y, size_t ldy, const float *x, size_t ldx,
                             size_t rows, size_t cols)
{
    vf r[LANES];
    for (size_t i = 0; i < LANES; i++)
        r[i] = i < rows ? vf_load(x + i * ldx, cols) : vf_set(0.0F);
    vf_transpose(r);
    for (size_t i = 0; i < cols; i++)
        vf_store(y + i * ldy, r[i], rows);
}

void LSI_SIMD(transpose)(float *y, size_t ldy, const float *x, size_t ldx,
                         size_t rows, size_t cols)
{
    for (size_t c = 0; c < cols; c += LANES)
        for (size_t r = 0; r < rows; r += LANES) {
            const size_t n = smaller(rows - r, LANES);
            const size_t m = smaller(cols - c, LANES);
            float *to = y + c * ldy + r;
            const float *from = x + r * ldx + c;
            if (n == LANES && m == LANES)
                transpose_square(to, ldy, from, ldx, LANES, LANES);
            else
                transpose_square(to, ldy, from, ldx, n, m);
        }
}

#endif
