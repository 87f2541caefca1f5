/* Softmax along an axis, and its logarithm. */
#ifndef LS_ARRAY_COMPUTE_SOFTMAX_H
#define LS_ARRAY_COMPUTE_SOFTMAX_H

#include "array/compute/along.h"

/* As the kernels of these names, where the axis is the last one. */
typedef enum lsi_softmax_kind { LSI_SOFTMAX, LSI_LOG_SOFTMAX } lsi_softmax_kind;

void lsi_softmax(lsi_softmax_kind kind, lsi_along shape, float *y,
                 const float *x);
/* y is the result of lsi_softmax; dx overlaps nothing. */
void lsi_softmax_backward(lsi_softmax_kind kind, lsi_along shape, float *dx,
                          const float *dy, const float *y);

#endif
