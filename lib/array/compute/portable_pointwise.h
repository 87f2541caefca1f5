/*
 * Convolutions with filters of 1x1 in portable bits, as products of matrices:
 * rows are pixels, columns are channels or filters. The bits are those of
 * portable_conv.h, because a sum over one tap is the sum of a product.
 */
#ifndef LS_ARRAY_COMPUTE_PORTABLE_POINTWISE_H
#define LS_ARRAY_COMPUTE_PORTABLE_POINTWISE_H

#include "array/kernels/dense.h"
#include "lockstep/status.h"

/* Whether a convolution can be computed so; the forward pass has no relu. */
bool lsi_portable_pointwise_suits(const lsi_conv2d_shape *shape);

ls_status lsi_portable_pointwise_forward(const lsi_conv2d_shape *shape,
                                         float *dst, const float *src,
                                         const float *weight,
                                         const float *bias_or_null);
ls_status lsi_portable_pointwise_backward_data(const lsi_conv2d_shape *shape,
                                               float *dsrc, const float *ddst,
                                               const float *weight);
/* The gradient of the weights alone. */
ls_status lsi_portable_pointwise_backward_weight(const lsi_conv2d_shape *shape,
                                                 float *dweight,
                                                 const float *src,
                                                 const float *ddst,
                                                 bool accumulate);

/*
 * to (count, channels) = the first `channels` of pixels of src that filters
 * reach. `first` counts these pixels, through all images.
 */
void lsi_portable_pointwise_gather(const lsi_conv2d_shape *shape, float *to,
                                   const float *src, int64_t first,
                                   int64_t count, int64_t channels);

#endif
