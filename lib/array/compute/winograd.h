/*
 * Convolutions of bf16 images by Winograd's algorithm
 * (array/kernels/winograd.h), at levels that have it. The functions are those
 * of compute/dense.h.
 */
#ifndef LS_ARRAY_COMPUTE_WINOGRAD_H
#define LS_ARRAY_COMPUTE_WINOGRAD_H

#include "array/kernels/dense.h"

/* Whether a plan with these layouts is computed so, in all passes. */
bool lsi_winograd_suits(const lsi_conv2d_shape *shape, lsi_layout src,
                        lsi_layout dst);

ls_status lsi_winograd_forward(const lsi_conv2d_shape *shape, void *dst,
                               const void *src, const void *weight);
ls_status lsi_winograd_backward_data(const lsi_conv2d_shape *shape, void *dsrc,
                                     const void *ddst, const void *weight);
ls_status lsi_winograd_backward_weight(const lsi_conv2d_shape *shape,
                                       float *dweight, const void *src,
                                       const void *ddst, bool accumulate);

#endif
