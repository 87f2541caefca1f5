/*
 * Pooling and reorders between plain images and those in blocks of channels.
 * Both go through tiles of LANES pixels x LANES channels, which are transposed
 * in registers.
 */
#ifndef LS_ARRAY_KERNELS_SIMD_IMAGES_H
#define LS_ARRAY_KERNELS_SIMD_IMAGES_H

#include "array/kernels/simd/words.h"

/* dst[c][r] = src[r][c] for r < rows, c < cols, both at most LANES. */
INLINE void transpose_tile(float *dst, size_t dst_stride, const float *src,
                           size_t src_stride, size_t rows, size_t cols)
{
    vf tile[LANES];
    for (size_t r = 0; r < LANES; r++)
        tile[r] = r < rows ? vf_load(src + r * src_stride, cols) : vf_set(0.0F);
    vf_transpose(tile);
    for (size_t c = 0; c < LANES; c++)
        if (c < cols)
            vf_store(dst + c * dst_stride, tile[c], rows);
}

/* The whole of dst (cols, rows) = src (rows, cols) transposed. */
static void transpose(float *dst, size_t dst_stride, const float *src,
                      size_t src_stride, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r += LANES)
        for (size_t c = 0; c < cols; c += LANES) {
            const float *from = src + r * src_stride + c;
            float *to = dst + c * dst_stride + r;
            const size_t tile_rows = smaller(rows - r, LANES);
            const size_t tile_cols = smaller(cols - c, LANES);
            if (tile_rows == LANES && tile_cols == LANES)
                transpose_tile(to, dst_stride, from, src_stride, LANES, LANES);
            else
                transpose_tile(to, dst_stride, from, src_stride, tile_rows,
                               tile_cols);
        }
}

void LSI_SIMD(reorder)(float *dst, int64_t dst_block, const float *src,
                       int64_t src_block, int64_t c, int64_t pixels)
{
    const size_t n = (size_t)pixels;
    if (dst_block == src_block || (dst_block != 1 && src_block != 1)) {
        lsi_ref_reorder(dst, dst_block, src, src_block, c, pixels);
        return;
    }
    const size_t block = (size_t)(dst_block == 1 ? src_block : dst_block);
    for (size_t first = 0; first < (size_t)c; first += block) {
        if (dst_block == 1)
            transpose(dst + first * n, n, src + first * n, block, n, block);
        else
            transpose(dst + first * n, block, src + first * n, n, block, n);
    }
}

/* The places of the outputs and inputs of one slab. */
typedef struct pool_slab {
    size_t block, w, ow;
    size_t outputs; /* oh * ow */
} pool_slab;

INLINE pool_slab slab_of(const lsi_pool2d *s)
{
    const size_t ow = (size_t)(s->w / s->size);
    return (pool_slab){.block = (size_t)lsi_layout_block(s->src_layout, s->c),
                       .w = (size_t)s->w,
                       .ow = ow,
                       .outputs = (size_t)(s->h / s->size) * ow};
}

/* The window of an output, going through them in order. */
typedef struct window {
    size_t at; /* of its first element in the slab */
    size_t column;
} window;

INLINE void next_window(window *w, const pool_slab *s, size_t size)
{
    w->at += size * s->block;
    if (++w->column < s->ow)
        return;
    w->column = 0; /* over the rest of this row and size - 1 more rows */
    w->at += (size * s->w - s->ow * size) * s->block;
}

/* One window, m channels: the maxima, and where they are. */
INLINE vf window_max(const pool_slab *s, const float *corner, size_t size,
                     size_t m, vi *where)
{
    vf max = vf_load(corner, m);
    vi at = vi_set(0);
    for (size_t k = 1; k < size * size; k++) {
        const size_t pixel = k / size * s->w + k % size;
        const vf v = vf_load(corner + pixel * s->block, m);
        const vm first_nan = vm_and_not(vf_is_nan(v), vf_is_nan(max));
        const vm larger = vm_or(vf_gt(v, max), first_nan);
        max = vf_select(larger, v, max);
        at = vi_select(larger, vi_set((uint32_t)k), at);
    }
    *where = at;
    return max;
}

/* m channels of a slab, LANES outputs at a time. */
INLINE void pool_channels(const pool_slab *s, float *dst, uint8_t *index,
                          const float *src, size_t size, size_t m)
{
    float tile[LANES * LANES];
    window w = {0, 0};
    for (size_t first = 0; first < s->outputs; first += LANES) {
        const size_t n = smaller(s->outputs - first, LANES);
        for (size_t i = 0; i < n; i++, next_window(&w, s, size)) {
            vi where;
            const vf max = window_max(s, src + w.at, size, m, &where);
            vf_store(tile + i * LANES, max, LANES);
            vi_store_u8(index + (first + i) * s->block, where, m);
        }
        if (n == LANES)
            transpose_tile(dst + first, s->outputs, tile, LANES, LANES, m);
        else
            transpose_tile(dst + first, s->outputs, tile, LANES, n, m);
    }
}

void LSI_SIMD(max_pool2d_forward)(float *dst, uint8_t *index, const float *src,
                                  const lsi_pool2d *shape, size_t begin,
                                  size_t end)
{
    const pool_slab s = slab_of(shape);
    const size_t size = (size_t)shape->size;
    const size_t inputs = (size_t)(shape->h * shape->w) * s.block;
    if (s.block == 1) {
        lsi_ref_max_pool2d_forward(dst, index, src, shape, begin, end);
        return;
    }
    for (size_t slab = begin; slab < end; slab++) {
        const size_t to = slab * s.block * s.outputs;
        FOR_LANES(s.block, {
            float *out = dst + to + i * s.outputs;
            const float *in = src + slab * inputs + i;
            if (size == 2)
                pool_channels(&s, out, index + to + i, in, 2, m);
            else
                pool_channels(&s, out, index + to + i, in, size, m);
        });
    }
}

/* Every element of a window gets g if it was the maximum, else 0. */
INLINE void window_gradient(const pool_slab *s, float *corner, size_t size,
                            size_t m, vf g, vi where)
{
    for (size_t k = 0; k < size * size; k++) {
        const size_t pixel = k / size * s->w + k % size;
        const vm here = vi_eq(where, vi_set((uint32_t)k));
        vf_store(corner + pixel * s->block, vf_keep(here, g), m);
    }
}

INLINE void unpool_channels(const pool_slab *s, float *dsrc, const float *ddst,
                            const uint8_t *index, size_t size, size_t m)
{
    float tile[LANES * LANES];
    window w = {0, 0};
    for (size_t first = 0; first < s->outputs; first += LANES) {
        const size_t n = smaller(s->outputs - first, LANES);
        if (n == LANES)
            transpose_tile(tile, LANES, ddst + first, s->outputs, m, LANES);
        else
            transpose_tile(tile, LANES, ddst + first, s->outputs, m, n);
        for (size_t i = 0; i < n; i++, next_window(&w, s, size)) {
            const vf g = vf_load(tile + i * LANES, m);
            const vi where = vi_load_u8(index + (first + i) * s->block, m);
            window_gradient(s, dsrc + w.at, size, m, g, where);
        }
    }
}

void LSI_SIMD(max_pool2d_backward)(float *dsrc, const float *ddst,
                                   const uint8_t *index,
                                   const lsi_pool2d *shape, size_t begin,
                                   size_t end)
{
    const pool_slab s = slab_of(shape);
    const size_t size = (size_t)shape->size;
    const size_t inputs = (size_t)(shape->h * shape->w) * s.block;
    const bool covers =
        shape->h % shape->size == 0 && shape->w % shape->size == 0;
    if (s.block == 1) {
        lsi_ref_max_pool2d_backward(dsrc, ddst, index, shape, begin, end);
        return;
    }
    for (size_t slab = begin; slab < end; slab++) {
        const size_t from = slab * s.block * s.outputs;
        if (!covers)
            memset(dsrc + slab * inputs, 0, inputs * sizeof(float));
        FOR_LANES(s.block, {
            float *out = dsrc + slab * inputs + i;
            const float *in = ddst + from + i * s.outputs;
            if (size == 2)
                unpool_channels(&s, out, in, index + from + i, 2, m);
            else
                unpool_channels(&s, out, in, index + from + i, size, m);
        });
    }
}

#endif
