/*
 * Max pooling. A slab is contiguous: the pixels of one block of channels of one
 * image.
 */
#include <string.h>

#include "array/kernels/layout.h"
#include "array/kernels/ref/ref.h"

/* First maximum of a window; a NaN counts as larger than anything. */
static uint8_t window_max(float *max, const float *corner, int64_t size,
                          int64_t row_step, int64_t column_step)
{
    uint8_t at = 0;
    *max = corner[0];
    for (int64_t i = 1; i < size * size; i++) {
        const float x = corner[i / size * row_step + i % size * column_step];
        if (x > *max || (x != x && *max == *max)) {
            *max = x;
            at = (uint8_t)i;
        }
    }
    return at;
}

void lsi_ref_max_pool2d_forward(float *dst, uint8_t *index, const float *src,
                                const lsi_pool2d *s, size_t begin, size_t end)
{
    const int64_t block = lsi_layout_block(s->src_layout, s->c);
    const int64_t ow = s->w / s->size;
    const int64_t outputs = s->h / s->size * ow;
    for (int64_t slab = (int64_t)begin; slab < (int64_t)end; slab++)
        for (int64_t b = 0; b < block; b++)
            for (int64_t i = 0; i < outputs; i++) {
                const int64_t y = i / ow * s->size;
                const int64_t x = i % ow * s->size;
                const float *corner =
                    src + ((slab * s->h + y) * s->w + x) * block + b;
                index[(slab * outputs + i) * block + b] =
                    window_max(dst + (slab * block + b) * outputs + i, corner,
                               s->size, s->w * block, block);
            }
}

void lsi_ref_max_pool2d_backward(float *dsrc, const float *ddst,
                                 const uint8_t *index, const lsi_pool2d *s,
                                 size_t begin, size_t end)
{
    const int64_t block = lsi_layout_block(s->src_layout, s->c);
    const int64_t ow = s->w / s->size;
    const int64_t outputs = s->h / s->size * ow;
    for (int64_t slab = (int64_t)begin; slab < (int64_t)end; slab++) {
        float *out = dsrc + slab * s->h * s->w * block;
        memset(out, 0, (size_t)(s->h * s->w * block) * sizeof(float));
        for (int64_t b = 0; b < block; b++)
            for (int64_t i = 0; i < outputs; i++) {
                const int64_t at = index[(slab * outputs + i) * block + b];
                const int64_t y = i / ow * s->size + at / s->size;
                const int64_t x = i % ow * s->size + at % s->size;
                out[(y * s->w + x) * block + b] =
                    ddst[(slab * block + b) * outputs + i];
            }
    }
}
