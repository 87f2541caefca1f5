/*
 * The place of an element of an (N, C, H, W) tensor. All layouts are (N, C /
 * block, H, W, block) with another block: 1 is plain, C is channels last.
 */
#ifndef LS_ARRAY_KERNELS_LAYOUT_H
#define LS_ARRAY_KERNELS_LAYOUT_H

#include "array/kernels/dense.h"

static inline int64_t lsi_layout_block(lsi_layout layout, int64_t c)
{
    switch (layout) {
    case LSI_LAYOUT_PLAIN:
        return 1;
    case LSI_LAYOUT_CHANNELS_LAST:
        return c;
    case LSI_LAYOUT_BLOCKED_8:
        return 8;
    case LSI_LAYOUT_BLOCKED_16:
        return 16;
    }
    return 1;
}

/* The taps of a window inside the image, and the place where it begins. */
typedef struct lsi_window_taps {
    int64_t y, x; /* of tap (0, 0) */
    int64_t y_begin, y_end, x_begin, x_end;
} lsi_window_taps;

static inline lsi_window_taps lsi_window_taps_of(const lsi_window2d *s,
                                                 int64_t out)
{
    lsi_window_taps t = {.y = out / s->ow * s->stride - s->padding,
                         .x = out % s->ow * s->stride - s->padding,
                         .y_end = s->size,
                         .x_end = s->size};
    t.y_begin = t.y < 0 ? -t.y : 0;
    t.x_begin = t.x < 0 ? -t.x : 0;
    if (t.y + s->size > s->h)
        t.y_end = s->h - t.y;
    if (t.x + s->size > s->w)
        t.x_end = s->w - t.x;
    return t;
}

#endif
