/* The convolutions that both of Winograd's algorithms compute. */
#ifndef LS_ARRAY_COMPUTE_WINOGRAD_CONV_H
#define LS_ARRAY_COMPUTE_WINOGRAD_CONV_H

#include "array/kernels/dense.h"
#include "array/kernels/winograd.h"

static inline lsi_winograd_conv lsi_winograd_conv_of(const lsi_conv2d_shape *s)
{
    return (lsi_winograd_conv){.n = s->n,
                               .c = s->c,
                               .h = s->h,
                               .w = s->w,
                               .o = s->o,
                               .oh = lsi_conv2d_extent(s, s->h, s->kh),
                               .ow = lsi_conv2d_extent(s, s->w, s->kw),
                               .padding = s->padding};
}

/* The gradient of the source is a convolution by the filters turned round. */
static inline lsi_winograd_conv
lsi_winograd_turned_conv(const lsi_conv2d_shape *s)
{
    const lsi_winograd_conv conv = lsi_winograd_conv_of(s);
    return (lsi_winograd_conv){.n = s->n,
                               .c = s->o,
                               .h = conv.oh,
                               .w = conv.ow,
                               .o = s->c,
                               .oh = s->h,
                               .ow = s->w,
                               .padding = 2 - s->padding};
}

/* A filter of 3x3 taps that moves by one pixel, all channels to all. */
static inline bool lsi_winograd_is_3x3(const lsi_conv2d_shape *s)
{
    return s->kh == 3 && s->kw == 3 && s->stride == 1 && s->padding <= 2 &&
           s->dilation == 1 && s->groups == 1;
}

/* The number of parts of at most `each` that n divides into. */
static inline size_t lsi_winograd_parts(size_t n, size_t each)
{
    return (n + each - 1) / each;
}

#endif
