/* Pooling over windows that may overlap; see lsi_window2d. */
#include <string.h>

#include "array/kernels/layout.h"
#include "array/kernels/ref/ref.h"

#define FOR_TAPS(t, ky, kx)                                                    \
    for (int64_t ky = (t).y_begin; ky < (t).y_end; ky++)                       \
        for (int64_t kx = (t).x_begin; kx < (t).x_end; kx++)

/* Element b of the block of pixels at a tap. */
static int64_t at_tap(const lsi_window2d *s, const lsi_window_taps *t,
                      int64_t ky, int64_t kx, int64_t block, int64_t b)
{
    return ((t->y + ky) * s->w + t->x + kx) * block + b;
}

/* The outputs of a slab, and its blocks. */
static int64_t outputs_of(const lsi_window2d *s, int64_t *block)
{
    *block = lsi_layout_block(s->layout, s->c);
    return s->oh * s->ow;
}

void lsi_ref_avg_window2d(float *dst, const float *src, const lsi_window2d *s,
                          size_t begin, size_t end)
{
    int64_t block;
    const int64_t n = outputs_of(s, &block), in = s->h * s->w * block;
    const float factor = 1.0F / (float)(s->size * s->size);
    for (int64_t slab = (int64_t)begin; slab < (int64_t)end; slab++)
        for (int64_t i = 0; i < n; i++) {
            const lsi_window_taps t = lsi_window_taps_of(s, i);
            for (int64_t b = 0; b < block; b++) {
                float sum = 0;
                FOR_TAPS(t, ky, kx)
                sum += src[slab * in + at_tap(s, &t, ky, kx, block, b)];
                dst[(slab * n + i) * block + b] = sum * factor;
            }
        }
}

void lsi_ref_avg_window2d_backward(float *dsrc, const float *ddst,
                                   const lsi_window2d *s, size_t begin,
                                   size_t end)
{
    int64_t block;
    const int64_t n = outputs_of(s, &block), in = s->h * s->w * block;
    const float factor = 1.0F / (float)(s->size * s->size);
    for (int64_t slab = (int64_t)begin; slab < (int64_t)end; slab++) {
        float *out = dsrc + slab * in;
        memset(out, 0, (size_t)in * sizeof(float));
        for (int64_t i = 0; i < n; i++) {
            const lsi_window_taps t = lsi_window_taps_of(s, i);
            for (int64_t b = 0; b < block; b++)
                FOR_TAPS(t, ky, kx)
            out[at_tap(s, &t, ky, kx, block, b)] +=
                ddst[(slab * n + i) * block + b] * factor;
        }
    }
}

static uint8_t first_maximum(const lsi_window2d *s, const lsi_window_taps *t,
                             const float *src, int64_t block, int64_t b,
                             float *max)
{
    int64_t where = t->y_begin * s->size + t->x_begin;
    *max = src[at_tap(s, t, t->y_begin, t->x_begin, block, b)];
    FOR_TAPS(*t, ky, kx)
    {
        const float x = src[at_tap(s, t, ky, kx, block, b)];
        if (x > *max || (x != x && *max == *max)) {
            *max = x;
            where = ky * s->size + kx;
        }
    }
    return (uint8_t)where;
}

void lsi_ref_max_window2d(float *dst, uint8_t *index, const float *src,
                          const lsi_window2d *s, size_t begin, size_t end)
{
    int64_t block;
    const int64_t n = outputs_of(s, &block), in = s->h * s->w * block;
    for (int64_t slab = (int64_t)begin; slab < (int64_t)end; slab++)
        for (int64_t i = 0; i < n; i++) {
            const lsi_window_taps t = lsi_window_taps_of(s, i);
            const int64_t at = (slab * n + i) * block;
            for (int64_t b = 0; b < block; b++)
                index[at + b] = first_maximum(s, &t, src + slab * in, block, b,
                                              &dst[at + b]);
        }
}

void lsi_ref_max_window2d_backward(float *dsrc, const float *ddst,
                                   const uint8_t *index, const lsi_window2d *s,
                                   size_t begin, size_t end)
{
    int64_t block;
    const int64_t n = outputs_of(s, &block), in = s->h * s->w * block;
    for (int64_t slab = (int64_t)begin; slab < (int64_t)end; slab++) {
        float *out = dsrc + slab * in;
        memset(out, 0, (size_t)in * sizeof(float));
        for (int64_t i = 0; i < n; i++) {
            const lsi_window_taps t = lsi_window_taps_of(s, i);
            for (int64_t b = 0; b < block; b++) {
                const int64_t at = (slab * n + i) * block + b;
                out[at_tap(s, &t, index[at] / s->size, index[at] % s->size,
                           block, b)] += ddst[at];
            }
        }
    }
}
