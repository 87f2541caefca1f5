/*
 * Convolutions by 3x3 filters with stride 1 of bf16 images, by Winograd's
 * algorithm F(2x2, 3x3) (Lavin and Gray 2016). Tiles of 4x4 pixels and the
 * filters are transformed to 16 points. At each point, a matrix product runs
 * over the channels. The inverse transform of the 16 products is 2x2 pixels of
 * the result. The algorithm needs 16 multiplications where the direct sum needs
 * 36. The file compute/winograd.c puts the parts together.
 *
 * Images are LSI_LAYOUT_BLOCKED_16, filters plain; channels of both are
 * multiples of LSI_WINOGRAD_LANES. Transforms are computed in f32. Factors are
 * rounded to bf16 once more; sums are f32.
 */
#ifndef LS_ARRAY_KERNELS_WINOGRAD_H
#define LS_ARRAY_KERNELS_WINOGRAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LSI_WINOGRAD_POINTS = 16,
    LSI_WINOGRAD_LANES =
        64, /* channels of the result that are summed at once */
    LSI_WINOGRAD_TILES = 48, /* of the result at a time */
    LSI_WINOGRAD_STRETCH =
        256 /* tiles whose products a gradient adds at once */
};

/* (n, c, h, w) to (n, o, oh, ow). */
typedef struct lsi_winograd_conv {
    int64_t n, c, h, w, o, oh, ow, padding;
    bool channels_last; /* images of f32; else in the blocks of the level */
} lsi_winograd_conv;

/* Tiles of 2x2 pixels of the result; those at the edge may have fewer. */
static inline size_t lsi_winograd_tiles(const lsi_winograd_conv *conv)
{
    return (size_t)(conv->n * ((conv->oh + 1) / 2) * ((conv->ow + 1) / 2));
}

/* A pass that makes images. */
typedef struct lsi_winograd_images {
    lsi_winograd_conv conv;
    const uint16_t *src;
    const uint16_t *u; /* the transformed filters */
    void *dst;
    bool dst_is_f32, relu;
} lsi_winograd_images;

/* The gradient of filters: src and the gradient of dst. */
typedef struct lsi_winograd_gradient {
    lsi_winograd_conv conv;
    const uint16_t *src, *ddst;
    uint16_t *v, *z; /* room for their points, of a stretch of tiles */
    float *sums;     /* (16, c, o) */
} lsi_winograd_gradient;

typedef struct lsi_winograd_ops {
    /*
     * u (16, o / 64, c / 2, 64, 2) of 16 x 16 filters of w (o, c, 3, 3); with
     * `turned` those of the gradient of the source, (16, c / 64, o / 2, 64, 2):
     * c and o change places, and the taps their order.
     */
    void (*filters)(uint16_t *u, const uint16_t *w, int64_t o, int64_t c,
                    bool turned, size_t o_block, size_t c_block);
    /* Tiles begin..end-1, LSI_WINOGRAD_TILES at most. */
    size_t (*images_scratch)(const lsi_winograd_conv *conv); /* bytes */
    void (*images)(const lsi_winograd_images *run, size_t begin, size_t end,
                   void *scratch);
    /* The room in lsi_winograd_gradient. */
    size_t (*v_elements)(const lsi_winograd_conv *conv);
    size_t (*z_elements)(const lsi_winograd_conv *conv);
    /*
     * For LSI_WINOGRAD_STRETCH tiles from `first` on. `points` computes the
     * points of tiles begin..end-1 of them (even numbers). `add_up` adds their
     * terms to the sums at one point, for 64 channels of the result.
     */
    void (*points)(const lsi_winograd_gradient *run, size_t first, size_t begin,
                   size_t end);
    void (*add_up)(const lsi_winograd_gradient *run, size_t first, size_t point,
                   size_t o_block);
    /* 16 x 16 filters of dw (o, c, 3, 3) (+)= those of the sums. */
    void (*gradient)(float *dw, const lsi_winograd_gradient *run,
                     size_t o_block, size_t c_block, bool accumulate);
} lsi_winograd_ops;

#endif
