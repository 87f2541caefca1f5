/*
 * Dense products, convolutions and reorders as plain loops, for the level
 * `ref`. Arguments are checked already (see compute/dense.h for their meaning);
 * tensors of convolutions are plain.
 */
#ifndef LS_ARRAY_KERNELS_REF_DENSE_H
#define LS_ARRAY_KERNELS_REF_DENSE_H

#include "array/kernels/dense.h"

void lsi_ref_gemm(const lsi_gemm_shape *g, void *c, const void *a,
                  const void *b, const float *bias_or_null);

void lsi_ref_conv2d_forward(const lsi_conv2d_shape *shape, float *dst,
                            const float *src, const float *weight,
                            const float *bias_or_null);
void lsi_ref_conv2d_backward_data(const lsi_conv2d_shape *shape, float *dsrc,
                                  const float *ddst, const float *weight);
void lsi_ref_conv2d_backward_weight(const lsi_conv2d_shape *shape,
                                    float *dweight, float *dbias_or_null,
                                    const float *src, const float *ddst,
                                    bool accumulate);

#endif
