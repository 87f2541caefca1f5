/*
 * Convolutions of f32 images by Winograd's algorithm
 * (array/kernels/winograd4.h), at levels that have it. The functions are those
 * of compute/dense.h.
 */
#ifndef LS_ARRAY_COMPUTE_WINOGRAD4_H
#define LS_ARRAY_COMPUTE_WINOGRAD4_H

#include "array/kernels/dense.h"

/* Whether a plan with these layouts is computed so, in all passes. */
bool lsi_winograd4_suits(const lsi_conv2d_shape *shape, lsi_layout src,
                         lsi_layout dst);

ls_status lsi_winograd4_forward(const lsi_conv2d_shape *shape, float *dst,
                                const float *src, const float *weight,
                                const float *bias_or_null);
ls_status lsi_winograd4_backward_data(const lsi_conv2d_shape *shape,
                                      float *dsrc, const float *ddst,
                                      const float *weight);
ls_status lsi_winograd4_backward_weight(const lsi_conv2d_shape *shape,
                                        float *dweight, float *dbias_or_null,
                                        const float *src, const float *ddst,
                                        bool accumulate);

#endif
