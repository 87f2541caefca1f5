/* Functions shared by the operations; see ops.h. */
#include "model/autograd/ops/ops.h"

#include "base/error.h"
#include "model/autograd/params.h"

const ls_function *const lsi_ops[] = {
#define X(name, ...) &lsi_op_##name,
#include "model/autograd/ops/ops.def"
#undef X
};
const size_t lsi_ops_count = sizeof lsi_ops / sizeof lsi_ops[0];

/* ---- checks -------------------------------------------------------------- */

/* The first `operands` inputs need not be ready yet. */
static bool begin(ls_tape *tape, const ls_function *function,
                  ls_tensor *const *inputs, int n, int operands)
{
    if (!lsi_tape_given(tape, function->name))
        return false;
    if (tape->status != LS_OK)
        return false;
    ls_status status = lsi_tape_check_recording(tape, function->name);
    if (status != LS_OK)
        return lsi_tape_stop(tape, status) != NULL;
    for (int i = 0; i < n; i++) {
        if (inputs[i] == NULL)
            return ls_tape_fail(tape, LS_ERR_ARGUMENT, "%s: input %d is NULL",
                                function->name, i) != NULL;
        status = i < operands
                     ? lsi_tensor_check_allocated(inputs[i], function->name)
                     : lsi_tensor_check_input(inputs[i], function->name);
        if (status != LS_OK)
            return lsi_tape_stop(tape, status) != NULL;
    }
    return true;
}

bool lsi_op_begin(ls_tape *tape, const ls_function *function,
                  ls_tensor *const *inputs, int n)
{
    return begin(tape, function, inputs, n, 0);
}

bool lsi_op_begin_product(ls_tape *tape, const ls_function *function,
                          ls_tensor *const *inputs, int n)
{
    return begin(tape, function, inputs, n, 2);
}

bool lsi_op_check_dtype(ls_tape *tape, const ls_function *function,
                        const ls_tensor *tensor, ls_dtype dtype)
{
    if (tensor->dtype == dtype)
        return true;
    ls_tape_fail(tape, LS_ERR_DTYPE,
                 "%s: a tensor of shape %s has dtype %s; it must be %s",
                 function->name, lsi_shape_of(tensor).text,
                 ls_dtype_name(tensor->dtype), ls_dtype_name(dtype));
    return false;
}

bool lsi_op_begin_f32(ls_tape *tape, const ls_function *function,
                      ls_tensor **inputs, int n)
{
    if (!lsi_op_begin(tape, function, inputs, n))
        return false;
    for (int i = 0; i < n; i++) {
        inputs[i] = lsi_op_wide(tape, inputs[i]);
        if (inputs[i] == NULL ||
            !lsi_op_check_dtype(tape, function, inputs[i], LS_F32))
            return false;
    }
    return true;
}

bool lsi_op_begin_mixed(ls_tape *tape, const ls_function *function,
                        ls_tensor *const *inputs, int n)
{
    if (!lsi_op_begin(tape, function, inputs, n))
        return false;
    for (int i = 0; i < n; i++) {
        const bool real = lsi_dtype_is_real(inputs[i]->dtype);
        if (!(real && lsi_tape_is_mixed(tape)) &&
            !lsi_op_check_dtype(tape, function, inputs[i], LS_F32))
            return false;
    }
    return true;
}

bool lsi_op_check_equal(ls_tape *tape, const ls_function *function,
                        const ls_tensor *a, const ls_tensor *b)
{
    if (lsi_shape_equal(a, b))
        return true;
    ls_tape_fail(tape, LS_ERR_SHAPE, "%s: shapes %s and %s must be equal",
                 function->name, lsi_shape_of(a).text, lsi_shape_of(b).text);
    return false;
}

bool lsi_op_check_ndim(ls_tape *tape, const ls_function *function,
                       const ls_tensor *tensor, int ndim, const char *wanted)
{
    if (tensor->ndim == ndim)
        return true;
    ls_tape_fail(tape, LS_ERR_SHAPE, "%s: got shape %s, expected shape %s",
                 function->name, lsi_shape_of(tensor).text, wanted);
    return false;
}

bool lsi_op_check_axis(ls_tape *tape, const ls_function *function,
                       const ls_tensor *tensor, int axis)
{
    if (axis >= 0 && axis < tensor->ndim)
        return true;
    ls_tape_fail(tape, LS_ERR_ARGUMENT, "%s: the shape %s has no axis %d",
                 function->name, lsi_shape_of(tensor).text, axis);
    return false;
}

bool lsi_op_check_filled(ls_tape *tape, const ls_function *function,
                         const ls_tensor *tensor, int axis)
{
    if (tensor->shape[axis] != 0)
        return true;
    ls_tape_fail(tape, LS_ERR_SHAPE,
                 "%s: axis %d of shape %s has 0 elements; it needs at least 1",
                 function->name, axis, lsi_shape_of(tensor).text);
    return false;
}

bool lsi_op_check_channels(ls_tape *tape, const ls_function *function,
                           const ls_tensor *x, const ls_tensor *tensor,
                           const char *name)
{
    if (tensor->ndim == 1 && tensor->shape[0] == x->shape[1] &&
        ls_tensor_is_contiguous(tensor))
        return true;
    ls_tape_fail(tape, LS_ERR_SHAPE,
                 "%s: %s has shape %s; it must be contiguous and have shape "
                 "(C), because x has shape %s (N, C, ...)",
                 function->name, name, lsi_shape_of(tensor).text,
                 lsi_shape_of(x).text);
    return false;
}

lsi_along lsi_op_along(const ls_tensor *tensor, int axis)
{
    lsi_along shape = {1, (size_t)tensor->shape[axis], 1};
    for (int d = 0; d < axis; d++)
        shape.outer *= (size_t)tensor->shape[d];
    for (int d = axis + 1; d < tensor->ndim; d++)
        shape.inner *= (size_t)tensor->shape[d];
    return shape;
}

/* ---- inputs -------------------------------------------------------------- */

ls_tensor *lsi_op_temp(ls_tape *tape, ls_dtype dtype, int ndim,
                       const int64_t *shape)
{
    ls_tensor *temp = NULL;
    const ls_status status =
        lsi_tape_temp(tape, dtype, ndim, shape, LSI_LAYOUT_PLAIN, &temp);
    return status == LS_OK ? temp : lsi_tape_stop(tape, status);
}

ls_tensor *lsi_op_dense(ls_tape *tape, ls_tensor *tensor)
{
    if (ls_tensor_is_contiguous(tensor))
        return tensor;
    ls_tensor *copy =
        lsi_op_temp(tape, tensor->dtype, tensor->ndim, tensor->shape);
    if (copy == NULL)
        return NULL;
    const ls_status status = ls_tensor_copy(copy, tensor);
    return status == LS_OK ? copy : lsi_tape_stop(tape, status);
}

ls_tensor *lsi_op_plain(ls_tape *tape, ls_tensor *tensor)
{
    ls_tensor *dense = lsi_op_dense(tape, tensor);
    if (dense == NULL)
        return NULL;
    const ls_status status = lsi_tensor_plain(dense);
    return status == LS_OK ? dense : lsi_tape_stop(tape, status);
}

/* ---- outputs ------------------------------------------------------------- */

ls_tensor *lsi_op_output(ls_tape *tape, ls_dtype dtype, int ndim,
                         const int64_t *shape, lsi_layout layout)
{
    ls_tensor *output = ls_tape_output(tape, dtype, ndim, shape);
    if (output != NULL)
        output->storage->layout = layout;
    return output;
}

ls_tensor *lsi_op_like(ls_tape *tape, const ls_tensor *tensor)
{
    return lsi_op_output(tape, tensor->dtype, tensor->ndim, tensor->shape,
                         lsi_tensor_layout(tensor));
}
