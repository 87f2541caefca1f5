/*
 * Convolutions by Winograd's algorithm (array/kernels/winograd.h and
 * winograd4.h), at levels that have it.
 */
#ifndef LS_ARRAY_COMPUTE_WINOGRAD_H
#define LS_ARRAY_COMPUTE_WINOGRAD_H

#include "array/kernels/dense.h"

/* The passes of a plan. Arguments are those of compute/dense.h. */
typedef struct lsi_winograd_passes {
    ls_status (*forward)(const lsi_conv2d_shape *shape, void *dst,
                         const void *src, const void *weight,
                         const float *bias_or_null);
    ls_status (*backward_data)(const lsi_conv2d_shape *shape, void *dsrc,
                               const void *ddst, const void *weight);
    ls_status (*backward_weight)(const lsi_conv2d_shape *shape, float *dweight,
                                 float *dbias_or_null, const void *src,
                                 const void *ddst, bool accumulate);
} lsi_winograd_passes;

/* For bf16 and for f32; NULL if a plan with these layouts is not so computed.
 */
const lsi_winograd_passes *lsi_winograd_bf16(const lsi_conv2d_shape *shape,
                                             lsi_layout src, lsi_layout dst);
const lsi_winograd_passes *lsi_winograd_f32(const lsi_conv2d_shape *shape,
                                            lsi_layout src, lsi_layout dst);

/*
 * For f32 in portable bits, on images that are channels last; NULL if not. The
 * shape of an image alone decides, at all levels alike.
 */
const lsi_winograd_passes *lsi_winograd_portable(const lsi_conv2d_shape *shape);

#endif
