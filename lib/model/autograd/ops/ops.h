/*
 * The operations, and the common parts of their forward functions.
 *
 * An operation begins with lsi_op_begin, checks shapes, makes its output by
 * ls_tape_output or lsi_op_like, computes, and ends with ls_tape_record. On any
 * failure it returns NULL, and the tape has the error.
 */
#ifndef LS_MODEL_AUTOGRAD_OPS_OPS_H
#define LS_MODEL_AUTOGRAD_OPS_OPS_H

#include "array/compute/along.h"
#include "array/compute/functions.h"
#include "array/compute/mixed.h"
#include "model/autograd/autocast.h"
#include "model/autograd/node.h"

#define X(name, ...) extern const ls_function lsi_op_##name;
#include "model/autograd/ops/ops.def"
#undef X

/* All of them, in the order of ops.def. */
extern const ls_function *const lsi_ops[];
extern const size_t lsi_ops_count;

/*
 * Whether the operation may compute: the tape has not failed and has not been
 * walked, and each of the n inputs is a tensor with memory. If not, the tape
 * fails.
 */
bool lsi_op_begin(ls_tape *tape, const ls_function *function,
                  ls_tensor *const *inputs, int n);

/* As lsi_op_begin; the first two inputs get ready by lsi_op_operand. */
bool lsi_op_begin_product(ls_tape *tape, const ls_function *function,
                          ls_tensor *const *inputs, int n);

/*
 * As lsi_op_begin, and all inputs are f32. If the tape mixes precisions, half
 * inputs are replaced by casts to f32.
 */
bool lsi_op_begin_f32(ls_tape *tape, const ls_function *function,
                      ls_tensor **inputs, int n);

/* As lsi_op_begin, and all inputs are f32 or, if the tape mixes, half. */
bool lsi_op_begin_mixed(ls_tape *tape, const ls_function *function,
                        ls_tensor *const *inputs, int n);

/* Whether the tensor has this type; else LS_ERR_DTYPE. */
bool lsi_op_check_dtype(ls_tape *tape, const ls_function *function,
                        const ls_tensor *tensor, ls_dtype dtype);

/*
 * A caller's options (NULL: the defaults), with 1 in place of each 0 that is
 * invalid.
 */
ls_status lsi_conv2d_options(ls_conv2d_options *out,
                             const ls_conv2d_options *given);

/* Maxima of adjacent windows, without padding. */
ls_tensor *lsi_max_pool2d(ls_tape *tape, ls_tensor *x, int size);

/* The two have equal shapes, or LS_ERR_SHAPE. */
bool lsi_op_check_equal(ls_tape *tape, const ls_function *function,
                        const ls_tensor *a, const ls_tensor *b);

/*
 * The tensor has this many dimensions, or LS_ERR_SHAPE has the expected shape
 * and the tensor's name: "(N, C) for x".
 */
bool lsi_op_check_ndim(ls_tape *tape, const ls_function *function,
                       const ls_tensor *tensor, int ndim, const char *wanted);

/* The tensor has this axis, or LS_ERR_ARGUMENT. */
bool lsi_op_check_axis(ls_tape *tape, const ls_function *function,
                       const ls_tensor *tensor, int axis);

/* This axis of the tensor has elements, or LS_ERR_SHAPE. */
bool lsi_op_check_filled(ls_tape *tape, const ls_function *function,
                         const ls_tensor *tensor, int axis);

/* The tensor called `name` is a value for each channel of x, or LS_ERR_SHAPE.
 */
bool lsi_op_check_channels(ls_tape *tape, const ls_function *function,
                           const ls_tensor *x, const ls_tensor *tensor,
                           const char *name);

/* A dense tensor along one of its axes. */
lsi_along lsi_op_along(const ls_tensor *tensor, int axis);

/*
 * The tensor itself if it is contiguous (in any layout), else a contiguous
 * copy that lives until the operation has recorded itself.
 */
ls_tensor *lsi_op_dense(ls_tape *tape, ls_tensor *tensor);

/* As lsi_op_dense, with plain memory. */
ls_tensor *lsi_op_plain(ls_tape *tape, ls_tensor *tensor);

/* A plain temporary, as from lsi_tape_temp; NULL on failure. */
ls_tensor *lsi_op_temp(ls_tape *tape, ls_dtype dtype, int ndim,
                       const int64_t *shape);

/* A new output of the tape. */
ls_tensor *lsi_op_output(ls_tape *tape, ls_dtype dtype, int ndim,
                         const int64_t *shape, lsi_layout layout);

/* A new output with the shape, type and layout of `tensor`. */
ls_tensor *lsi_op_like(ls_tape *tape, const ls_tensor *tensor);

/* The input's own elements as an output: the identity, recorded. */
ls_tensor *lsi_op_identity(ls_tape *tape, ls_tensor *a);

/* Backward: d input = dy * factor, in the layout of dy. */
ls_status lsi_op_pass_scaled(ls_tape *tape, ls_node *node, int index,
                             double factor);

static inline float *lsi_op_floats(const ls_tensor *tensor)
{
    return lsi_tensor_raw(tensor);
}

static inline lsi_mixed lsi_op_mixed(const ls_tensor *tensor)
{
    return (lsi_mixed){lsi_tensor_raw(tensor), tensor->dtype};
}

#endif
