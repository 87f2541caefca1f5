/* How products by panels divide matrices: into parts, blocks and strips. */
#ifndef LS_ARRAY_COMPUTE_GEMM_BLOCKS_H
#define LS_ARRAY_COMPUTE_GEMM_BLOCKS_H

#include "array/kernels/dense.h"
#include "base/partition.h"

static inline size_t lsi_blocks_smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* n / each, rounded up. */
static inline size_t lsi_blocks_count(size_t n, size_t each)
{
    return (n + each - 1) / each;
}

/* Size of blocks of n, at most `most`, of about the same size. */
static inline size_t lsi_blocks_size(size_t n, size_t most, size_t unit)
{
    const size_t blocks = n > 0 ? lsi_blocks_count(n, most) : 1;
    return lsi_blocks_count(lsi_blocks_count(n, blocks), unit) * unit;
}

/* The block of lanes or terms that begins at `at`. */
static inline lsi_range lsi_blocks_next(size_t at, size_t size, size_t end)
{
    return (lsi_range){at, lsi_blocks_smaller(at + size, end)};
}

/* Parts of the rows that divide C into `parts`, as close to squares as the
 * number allows. */
static inline size_t lsi_blocks_down(const lsi_gemm_shape *g, size_t parts)
{
    const size_t m = (size_t)g->m, n = (size_t)g->n;
    size_t best = 1;
    for (size_t down = 1; down <= parts; down++) {
        if (parts % down == 0 &&
            m / down + n * down / parts < m / best + n * best / parts)
            best = down;
    }
    return best;
}

static inline lsi_strip lsi_blocks_strip(const float *data, int64_t ld,
                                         bool lanes_dense, lsi_range lanes,
                                         lsi_range terms)
{
    const size_t step = (size_t)ld;
    return (lsi_strip){.data = lanes_dense
                                   ? data + terms.begin * step + lanes.begin
                                   : data + lanes.begin * step + terms.begin,
                       .ld = step,
                       .lanes = lsi_range_size(lanes),
                       .terms = lsi_range_size(terms),
                       .lanes_dense = lanes_dense};
}

/* The cache lines of a strip. */
static inline lsi_fetch lsi_blocks_fetch(const lsi_strip *s)
{
    const size_t line_floats = 16;
    return (lsi_fetch){.data = s->data,
                       .ld = s->ld,
                       .rows = s->lanes_dense ? s->terms : s->lanes,
                       .lines = lsi_blocks_count(
                           s->lanes_dense ? s->lanes : s->terms, line_floats)};
}

#endif
