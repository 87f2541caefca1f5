/*
 * A few rows x times the rows of a matrix w in portable bits (portable.h), in
 * the words of a level. Squares of w are transposed in registers, so that each
 * lane has the chain of one row.
 *
 * Memory is read at full speed only if few rows are read at a time, and all
 * from the first-level cache. So one vector of rows advances by a block of
 * terms, and fetches the next block meanwhile. Short rows are rather in the
 * cache, where waiting for one chain would be the limit: several vectors of
 * them advance together, if x is one row.
 */
#ifndef LS_ARRAY_KERNELS_SIMD_ROW_CHAINS_H
#define LS_ARRAY_KERNELS_SIMD_ROW_CHAINS_H

#include "array/kernels/portable.h"
#include "array/kernels/simd/portable_gemm.h"

enum {
    SHORT_ROW = 2 * LSI_PORTABLE_BLOCK,
    SHORT_ROWS = 24 / LANES,     /* vectors of short rows */
    CHAINS = 6,                  /* vectors of sums, at most */
    X_ROWS = 4,                  /* rows of x at a time, at most */
    LINES = LANES * LANES / LINE /* cache lines of a square */
};

_Static_assert(SHORT_ROWS <= CHAINS && X_ROWS <= CHAINS, "sums have room");

/* Some rows of x, and some vectors of rows of w. */
typedef struct row_set {
    float *y;
    size_t ld_y;
    const float *x, *w;
    size_t cols, xs, vecs;
} row_set;

/* sum[j] += the products of m terms of row j of x and LANES rows, those of w.
 */
INLINE void add_square(vf *sum, const float *x, size_t xs, const float *w,
                       size_t ld, size_t m)
{
    vf square[LANES];
    UNROLL
    for (size_t r = 0; r < LANES; r++)
        square[r] = vf_load(w + r * ld, m);
    vf_transpose(square);
    UNROLL
    for (size_t j = 0; j < xs; j++) {
        UNROLL
        for (size_t i = 0; i < LANES; i++)
            if (i < m)
                sum[j] = vf_fma(vf_set(x[j * ld + i]), square[i], sum[j]);
    }
}

/* The lines at column k of LANES rows, in turns: each square fetches LINES. */
INLINE void fetch_lines(const float *rows, size_t ld, size_t k)
{
    const float *from = rows + k / LANES % (LINE / LANES) * LINES * ld + k;
    UNROLL
    for (size_t l = 0; l < LINES; l++)
        __builtin_prefetch(from + l * ld);
}

/* The sums of the terms at..end-1 of one block. `next` is read afterwards. */
INLINE void add_block(vf *sum, row_set s, size_t at, size_t end,
                      const float *next)
{
    const size_t step = LANES * s.cols;
    size_t k = at;
    UNROLL
    for (size_t c = 0; c < s.vecs * s.xs; c++)
        sum[c] = vf_set(0.0F);
    for (; k + LANES <= end; k += LANES) {
        UNROLL
        for (size_t v = 0; v < s.vecs; v++) {
            fetch_lines(next + v * step, s.cols, k - at);
            add_square(sum + v * s.xs, s.x + k, s.xs, s.w + v * step + k,
                       s.cols, LANES);
        }
    }
    if (k < end) {
        UNROLL
        for (size_t v = 0; v < s.vecs; v++)
            add_square(sum + v * s.xs, s.x + k, s.xs, s.w + v * step + k,
                       s.cols, end - k);
    }
}

INLINE void multiply_set(row_set s)
{
    vf total[CHAINS], sum[CHAINS];
    const size_t chains = s.vecs * s.xs;
    UNROLL
    for (size_t c = 0; c < chains; c++)
        total[c] = vf_set(0.0F);
    for (size_t at = 0, end; at < s.cols; at = end) {
        end = smaller(at + LSI_PORTABLE_BLOCK, s.cols);
        add_block(sum, s, at, end,
                  s.w + (end < s.cols ? end : s.vecs * LANES * s.cols));
        UNROLL
        for (size_t c = 0; c < chains; c++)
            total[c] = at == 0 ? sum[c] : vf_add(total[c], sum[c]);
    }
    UNROLL
    for (size_t v = 0; v < s.vecs; v++) {
        UNROLL
        for (size_t j = 0; j < s.xs; j++)
            vf_store(s.y + j * s.ld_y + v * LANES, total[v * s.xs + j], LANES);
    }
}

/* Up to X_ROWS rows of x. */
INLINE void multiply_x(row_set s, size_t rows)
{
    const row_set all = s;
    size_t r = 0;
    if (s.xs == 1 && s.cols <= SHORT_ROW)
        for (s.vecs = SHORT_ROWS; r + SHORT_ROWS * LANES <= rows;
             r += SHORT_ROWS * LANES) {
            s.y = all.y + r;
            s.w = all.w + r * s.cols;
            multiply_set(s);
        }
    /* The last vector of rows begins early enough to be full. */
    for (s.vecs = 1; r < rows; r += LANES) {
        r = smaller(r, rows - LANES);
        s.y = all.y + r;
        s.w = all.w + r * s.cols;
        multiply_set(s);
    }
}

void LSI_SIMD(row_chains)(float *y, size_t ld_y, const float *x, size_t n,
                          const float *w, size_t rows, size_t cols)
{
    row_set s = {.y = y, .ld_y = ld_y, .x = x, .w = w, .cols = cols};
    if (rows < LANES) {
        lsi_ref_row_chains(y, ld_y, x, n, w, rows, cols);
        return;
    }
    for (size_t left = n; left > 0; left -= s.xs) {
        if (left >= X_ROWS)
            multiply_x((s.xs = X_ROWS, s), rows);
        else if (left >= 2)
            multiply_x((s.xs = 2, s), rows);
        else
            multiply_x((s.xs = 1, s), rows);
        s.x += s.xs * cols;
        s.y += s.xs * ld_y;
    }
}

#endif
