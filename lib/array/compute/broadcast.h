/*
 * Element-wise operations on arrays that are repeated along some dimensions, as
 * NumPy's broadcasting does: such a dimension has stride 0. Only the result is
 * written, with any strides.
 */
#ifndef LS_ARRAY_COMPUTE_BROADCAST_H
#define LS_ARRAY_COMPUTE_BROADCAST_H

#include <stdint.h>

#include "lockstep/tensor.h"

typedef enum lsi_binary_op {
    LSI_BINARY_ADD,
    LSI_BINARY_SUB,
    LSI_BINARY_MUL,
    LSI_BINARY_DIV
} lsi_binary_op;

/* Any strides, in elements, one per dimension. */
typedef struct lsi_repeated {
    const float *data;
    int64_t strides[LS_MAX_DIMS];
} lsi_repeated;

/* y = a op b; y is dense, and may be a or b if that lies in memory like y. */
void lsi_broadcast_binary(lsi_binary_op op, float *y, int ndim,
                          const int64_t *shape, lsi_repeated a, lsi_repeated b);

#endif
