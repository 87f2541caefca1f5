/*
 * Convolutions by 3x3 filters with stride 1 of f32 images, by Winograd's
 * algorithm F(4x4, 3x3) (Lavin and Gray 2016). Tiles of 6x6 pixels and the
 * filters are transformed to 36 points. At each point, a matrix product runs
 * over the channels. The inverse transform of the 36 products is 4x4 pixels of
 * the result. The algorithm needs 36 multiplications where the direct sum needs
 * 144. The file compute/winograd4.c puts the parts together.
 *
 * Images are in the layout of the level, with blocks of one vector, or channels
 * last. Filters are plain. Channels of both are multiples of `lanes`, two
 * vectors. Vectors run over channels of the result only, so all levels compute
 * the same bits.
 */
#ifndef LS_ARRAY_KERNELS_WINOGRAD4_H
#define LS_ARRAY_KERNELS_WINOGRAD4_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "array/kernels/dense.h"
#include "array/kernels/winograd.h"

enum {
    LSI_WINOGRAD4_POINTS = 36,
    LSI_WINOGRAD4_SIDE = 4,     /* pixels of a tile of the result */
    LSI_WINOGRAD4_STRETCH = 128 /* tiles whose products a gradient adds */
};

/* Tiles of 4x4 pixels of the result; those at the edge may have fewer. */
static inline size_t lsi_winograd4_tiles(const lsi_winograd_conv *conv)
{
    const int64_t side = LSI_WINOGRAD4_SIDE;
    return (size_t)(conv->n * ((conv->oh + side - 1) / side) *
                    ((conv->ow + side - 1) / side));
}

/* A pass that makes images. */
typedef struct lsi_winograd4_images {
    lsi_winograd_conv conv;
    const float *src;
    const float *u;            /* the transformed filters */
    const float *bias_or_null; /* [o] */
    float *dst;
    bool relu;
} lsi_winograd4_images;

/* The gradient of filters: src and the gradient of dst. */
typedef struct lsi_winograd4_gradient {
    lsi_winograd_conv conv;
    const float *src, *ddst;
    float *v, *z; /* room for their points, of a stretch of tiles */
    float *sums;  /* room for the products, (36, c, o) with gaps */
} lsi_winograd4_gradient;

/* Numbers of floats of the arrays in scratch memory. */
typedef struct lsi_winograd4_room {
    size_t images; /* of `tiles` tiles */
    size_t v, z, sums;
} lsi_winograd4_room;

typedef struct lsi_winograd4_ops {
    lsi_layout layout; /* of fast bits; PLAIN: only portable ones */
    int64_t lanes;
    /*
     * u (36, o / lanes, c, lanes) of lanes filters, of lanes / 2 channels.
     * With `turned` those of the gradient of the source, (36, c / lanes, o,
     * lanes): c and o change places, and the taps their order.
     */
    void (*filters)(float *u, const float *w, int64_t o, int64_t c, bool turned,
                    size_t panel, size_t block);
    lsi_winograd4_room (*room)(const lsi_winograd_conv *conv, size_t tiles);
    /* Tiles begin..end-1. */
    void (*images)(const lsi_winograd4_images *run, size_t begin, size_t end,
                   float *scratch);
    /*
     * For LSI_WINOGRAD4_STRETCH tiles from `first` on. `points` computes the
     * points of tiles begin..end-1 of them. `add_up` adds the terms of `count`
     * tiles to the sums at one point, for lanes filters; the first stretch sets
     * them.
     */
    void (*points)(const lsi_winograd4_gradient *run, size_t first,
                   size_t begin, size_t end);
    void (*add_up)(const lsi_winograd4_gradient *run, size_t first,
                   size_t count, size_t point, size_t panel);
    /* lanes / 2 x lanes / 2 filters of dw (o, c, 3, 3) (+)= those of the sums.
     */
    void (*gradient)(float *dw, const lsi_winograd4_gradient *run,
                     size_t o_block, size_t c_block, bool accumulate);
    /* lanes / 2 sums of db (o) (+)= those of ddst, which is in blocks. */
    void (*bias)(float *db, const lsi_winograd4_gradient *run, size_t o_block,
                 bool accumulate);
} lsi_winograd4_ops;

extern const lsi_winograd4_ops lsi_winograd4_ref, lsi_winograd4_neon,
    lsi_winograd4_avx2, lsi_winograd4_avx512;

#endif
