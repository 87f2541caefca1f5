/*
 * Broadcasting, for operations of several tensors: their common shape, and the
 * dimensions along which each is repeated.
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
 * Broadcasts `shape` with the tensor's shape. Start with {0}, the shape of no
 * dimensions. The tape fails if the two do not match.
 */
bool lsi_op_broadcast(ls_tape *tape, const ls_function *function,
                      const ls_tensor *tensor, lsi_op_shape *shape);

/* The strides of a dense tensor in a larger shape: 0 where it is repeated. */
void lsi_op_repeated_strides(const ls_tensor *tensor, int ndim,
                             int64_t *strides);

/* The tensor repeated to that shape, plain; itself if it has the shape. */
ls_tensor *lsi_op_repeat(ls_tape *tape, ls_tensor *tensor,
                         const lsi_op_shape *shape);

/* The terms of a sum over repetitions: g factor, or g h. */
typedef struct lsi_repeated_sum {
    const float *g;
    const float *h; /* or NULL */
    double factor;
} lsi_repeated_sum;

/*
 * d input = the sum over the repetitions of an input in output 0. A parameter
 * that all samples repeat gets the sum of each slice.
 */
ls_status lsi_op_sum_repeated(ls_tape *tape, ls_node *node, size_t index,
                              const lsi_repeated_sum *sum);

/*
 * Whether the input is a parameter that all samples of a batch repeat, be it
 * one sample.
 */
bool lsi_op_repeats_samples(const ls_tape *tape, const ls_node *node,
                            size_t index);

/* The dimensions of y along which an input was repeated. */
lsi_axes lsi_op_repetitions(const ls_tensor *y, const ls_tensor *input);

#endif
