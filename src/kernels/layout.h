/*
 * Where an element of an (N, C, H, W) tensor lies. All layouts are
 * (N, C / block, H, W, block) with another block: 1 is plain, C is channels
 * last.
 */
#ifndef LS_KERNELS_LAYOUT_H
#define LS_KERNELS_LAYOUT_H

#include "kernels/dense.h"

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

#endif
