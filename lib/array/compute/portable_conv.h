/*
 * Convolutions of f32 in portable bits: every element is a sum of
 * kernels/chains.h. Its terms are in the order of memory of the array that is
 * summed over:
 *
 *   forward            rows, columns, channels of a window of the source
 *   backward, data     rows, columns, filters of the result's gradient
 *   backward, weight   images, rows, columns of the result's gradient
 *
 * Pixels outside of an image are zeros that take part in the sum. Images are
 * channels last. Arguments are those of compute/dense.h.
 */
#ifndef LS_ARRAY_COMPUTE_PORTABLE_CONV_H
#define LS_ARRAY_COMPUTE_PORTABLE_CONV_H

#include "array/kernels/dense.h"
#include "lockstep/status.h"

ls_status lsi_portable_conv2d_forward(const lsi_conv2d_shape *shape, float *dst,
                                      const float *src, const float *weight,
                                      const float *bias_or_null);
ls_status lsi_portable_conv2d_backward_data(const lsi_conv2d_shape *shape,
                                            float *dsrc, const float *ddst,
                                            const float *weight);
ls_status lsi_portable_conv2d_backward_weight(
    const lsi_conv2d_shape *shape, float *dweight, float *dbias_or_null,
    const float *src, const float *ddst, bool accumulate);

#endif
