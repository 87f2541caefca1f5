/*
 * Another type: y = a, each element rounded to the new type.
 *
 *     da = dy, rounded to a's type (the derivative of rounding taken as 1)
 */
#include "array/compute/array.h"
#include "base/error.h"
#include "model/autograd/ops/ops.h"

static ls_status cast_backward(ls_tape *tape, ls_node *node)
{
    const ls_tensor *dy = lsi_node_grad_output_raw(tape, node, 0);
    lsi_target dx = {0};
    LS_TRY(lsi_target_open(tape, node, 0, lsi_tensor_layout(dy), &dx));
    if (dx.grad == NULL)
        return LS_OK;
    lsi_array_convert(lsi_tensor_raw(dx.out), dx.out->dtype, lsi_tensor_raw(dy),
                      dy->dtype, (size_t)dy->count);
    return lsi_target_close(&dx);
}

const ls_function lsi_op_cast = {"cast", cast_backward, 0};

ls_tensor *ls_cast(ls_tape *tape, ls_tensor *a, ls_dtype dtype)
{
    if (!lsi_op_begin(tape, &lsi_op_cast, &a, 1))
        return NULL;
    if (!lsi_dtype_is_real(dtype))
        return ls_tape_fail(
            tape, LS_ERR_DTYPE,
            "cast: cannot cast to %s; the dtype must be f32, bf16 or f16",
            ls_dtype_name(dtype));
    if (a->dtype == dtype)
        return lsi_op_identity(tape, a);
    const ls_tensor *x = lsi_op_dense(tape, a);
    ls_tensor *y = x != NULL ? lsi_op_output(tape, dtype, x->ndim, x->shape,
                                             lsi_tensor_layout(x))
                             : NULL;
    if (y == NULL)
        return NULL;
    lsi_array_convert(lsi_tensor_raw(y), dtype, lsi_tensor_raw(x), x->dtype,
                      (size_t)x->count);
    return ls_tape_record(tape, &lsi_op_cast, NULL, &a, 1, &y, 1, NULL, 0);
}
