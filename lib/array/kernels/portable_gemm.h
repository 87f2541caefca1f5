/*
 * The parts of an f32 product whose bits are portable (kernels/portable.h), for
 * each level. compute/portable_gemm.c combines them. Vectors run over columns
 * only, so the width of a level's vectors changes no bit.
 *
 * The lanes of a panel are some rows of A, or some columns of B. A panel has
 * the terms of one block, each with the numbers of all lanes.
 */
#ifndef LS_ARRAY_KERNELS_PORTABLE_GEMM_H
#define LS_ARRAY_KERNELS_PORTABLE_GEMM_H

#include <stdbool.h>
#include <stddef.h>

#include "array/kernels/dense.h"

/*
 * The rows of C are in panels of `rows` rows of A, the last of which may have
 * fewer, each stored directly after the previous one. The columns, at most
 * `lanes` of the level, are one panel of B. Full `lanes` columns of B may be
 * read in place, too.
 */
typedef struct lsi_portable_product {
    const float *a, *b;
    size_t ld_b;              /* floats from term to term of b */
    size_t rows, cols, terms; /* terms: at most LSI_PORTABLE_BLOCK */
    float *c;
    size_t ldc;
    const float *totals; /* of the blocks before, or NULL; may be c */
    size_t ld_totals;
    const float *bias_or_null; /* of each column */
    bool accumulate;           /* adds the numbers that are in c */
    lsi_fetch fetch;           /* prefetched meanwhile */
} lsi_portable_product;

/*
 * y (n, rows) = x (n, cols) w^T, w (rows, cols), for few rows of x; the rows of
 * y are `ld_y` floats apart. The level AVX-512 has that of AVX2: with 8 lanes,
 * fewer rows are read from memory at a time.
 */
typedef void lsi_row_chains(float *y, size_t ld_y, const float *x, size_t n,
                            const float *w, size_t rows, size_t cols);
lsi_row_chains lsi_ref_row_chains, lsi_neon_row_chains, lsi_avx2_row_chains;

typedef struct lsi_portable_ops {
    size_t rows;  /* of a panel of A */
    size_t lanes; /* of a panel of B */
    /*
     * to[term * width + lane] = the strip's number, 0 for the lanes that it
     * lacks. Writes up to LSI_PORTABLE_SLACK floats after the panel.
     */
    void (*pack)(float *to, const lsi_strip *strip, size_t width);
    /* c = ((totals + A B) + bias) + c; each part only where wanted. */
    void (*multiply)(const lsi_portable_product *p);
    lsi_row_chains *row_chains;
} lsi_portable_ops;

enum { LSI_PORTABLE_SLACK = 16 };

extern const lsi_portable_ops lsi_portable_ref, lsi_portable_neon,
    lsi_portable_avx2, lsi_portable_avx512;

#endif
