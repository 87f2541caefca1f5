/* Copies between layouts. */
#include "array/kernels/layout.h"
#include "array/kernels/ref/ref.h"

/* clang-format off */
#define REORDER(name, element)                                                 \
    void name(element *dst, int64_t dst_block, const element *src,             \
              int64_t src_block, int64_t c, int64_t pixels)                    \
    {                                                                          \
        for (int64_t channel = 0; channel < c; channel++) {                    \
            const int64_t to = channel / dst_block * dst_block * pixels +      \
                               channel % dst_block;                            \
            const int64_t from = channel / src_block * src_block * pixels +    \
                                 channel % src_block;                          \
            for (int64_t i = 0; i < pixels; i++)                               \
                dst[to + i * dst_block] = src[from + i * src_block];           \
        }                                                                      \
    }
/* clang-format on */

REORDER(lsi_ref_reorder, float)
REORDER(lsi_ref_reorder_half, uint16_t)
