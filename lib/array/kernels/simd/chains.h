/*
 * lsi_chain_ops of a level, in its words. A tile of sums stays in registers
 * while k advances; of the left factor, each row has a pointer in a register.
 */
#ifndef LS_ARRAY_KERNELS_SIMD_CHAINS_H
#define LS_ARRAY_KERNELS_SIMD_CHAINS_H

#include "array/kernels/chains.h"
#include "fold/simd/words.h"

/* A vector of sums, to memory. */
INLINE void finish(const lsi_chains *p, float *c, vf x, size_t first)
{
    if (first >= p->cols)
        return;
    const size_t m = smaller(p->cols - first, LANES);
    if (p->add)
        x = vf_add(vf_load(c + first, m), x);
    if (p->bias)
        x = vf_add(x, vf_load(p->bias + first, m));
    if (p->relu)
        x = vf_max(vf_set(0.0F), x);
    vf_store(c + first, x, m);
}

/* Rows from `row` on; after the last row it is computed again. */
INLINE void multiply_tile(const lsi_chains *p, size_t row, const size_t vecs)
{
    const float *a[PRODUCT_ROWS], *b = p->b;
    vf sums[PRODUCT_ROWS][PRODUCT_VECS];
#pragma GCC unroll 8
    for (size_t i = 0; i < PRODUCT_ROWS; i++) {
        a[i] = p->a[smaller(row + i, p->rows - 1)] + p->first_a;
#pragma GCC unroll 4
        for (size_t v = 0; v < vecs; v++)
            sums[i][v] = vf_set(0.0F);
    }
    for (size_t k = 0; k < p->depth; k++) {
        const size_t at = p->at[k];
        vf column[PRODUCT_VECS];
#pragma GCC unroll 4
        for (size_t v = 0; v < vecs; v++)
            column[v] = vf_load(b + v * LANES, LANES);
        b += PRODUCT_VECS * LANES;
#pragma GCC unroll 8
        for (size_t i = 0; i < PRODUCT_ROWS; i++) {
            const vf x = vf_set(a[i][at]);
#pragma GCC unroll 4
            for (size_t v = 0; v < vecs; v++)
                sums[i][v] = vf_fma(x, column[v], sums[i][v]);
        }
    }
#pragma GCC unroll 8
    for (size_t i = 0; i < PRODUCT_ROWS; i++)
        if (row + i < p->rows)
#pragma GCC unroll 4
            for (size_t v = 0; v < vecs; v++)
                finish(p, p->c[row + i] + p->first_c, sums[i][v], v * LANES);
}

INLINE void multiply_tiles(const lsi_chains *p, const size_t vecs)
{
    for (size_t row = 0; row < p->rows; row += PRODUCT_ROWS)
        multiply_tile(p, row, vecs);
}

static void multiply_chains(const lsi_chains *p)
{
    if (p->cols > LANES)
        multiply_tiles(p, PRODUCT_VECS);
    else
        multiply_tiles(p, 1);
}

#define CHAIN_OPS                                                              \
    {                                                                          \
        .panel = PRODUCT_VECS * LANES, .multiply = multiply_chains             \
    }

#endif
