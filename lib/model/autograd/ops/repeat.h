/*
 * Broadcasting, for operations of several tensors: the shape that all of them
 * are repeated to, and which dimensions that is along.
 */
#ifndef LS_MODEL_AUTOGRAD_OPS_REPEAT_H
#define LS_MODEL_AUTOGRAD_OPS_REPEAT_H

#include "array/compute/axes.h"
#include "model/autograd/ops/ops.h"

typedef struct lsi_op_shape {
    int ndim;
    int64_t extent[LS_MAX_DIMS];
} lsi_op_shape;

/*
 * Makes `shape` the one that it and the tensor's broadcast to. It is that of no
 * dimensions at first: {0}. If they do not fit the tape fails.
 */
bool lsi_op_broadcast(ls_tape *tape, const ls_function *function,
                      const ls_tensor *tensor, lsi_op_shape *shape);

/* The strides of a dense tensor in a larger shape: 0 where it is repeated. */
void lsi_op_repeated_strides(const ls_tensor *tensor, int ndim,
                             int64_t *strides);

/* The tensor repeated to that shape, plain; itself if it has the shape. */
ls_tensor *lsi_op_repeat(ls_tape *tape, ls_tensor *tensor,
                         const lsi_op_shape *shape);

/* Which dimensions of y an input was repeated along. */
lsi_axes lsi_op_repetitions(const ls_tensor *y, const ls_tensor *input);

#endif
