/*
 * y = e^x / sum of e^x over one axis, x being centred at its largest first.
 *
 *     dx = y (dy - sum of dy y over the axis)
 *
 * or the logarithm of that, y = x - log of the sum of e^x:
 *
 *     dx = dy - e^y * sum of dy over the axis
 */
#include "array/compute/softmax.h"
#include "base/error.h"
#include "model/autograd/ops/ops.h"

static lsi_along along(const ls_tensor *t, int axis)
{
    lsi_along shape = {1, (size_t)t->shape[axis], 1};
    for (int d = 0; d < axis; d++)
        shape.outer *= (size_t)t->shape[d];
    for (int d = axis + 1; d < t->ndim; d++)
        shape.inner *= (size_t)t->shape[d];
    return shape;
}

static ls_status backward(ls_tape *tape, ls_node *node, lsi_softmax_kind kind)
{
    const int *axis = ls_node_state(node);
    const ls_tensor *y = ls_node_saved(node, 0);
    const ls_tensor *dy = ls_node_grad_output(tape, node, 0);
    lsi_target dx = {0};
    LS_TRY(ls_tape_status(tape));
    LS_TRY(lsi_target_open(tape, node, 0, LSI_LAYOUT_PLAIN, &dx));
    if (dx.grad == NULL)
        return LS_OK;
    lsi_softmax_backward(kind, along(y, *axis), lsi_op_floats(dx.out),
                         lsi_op_floats(dy), lsi_op_floats(y));
    return lsi_target_close(&dx);
}

static ls_status softmax_backward(ls_tape *tape, ls_node *node)
{
    return backward(tape, node, LSI_SOFTMAX);
}

static ls_status log_softmax_backward(ls_tape *tape, ls_node *node)
{
    return backward(tape, node, LSI_LOG_SOFTMAX);
}

const ls_function lsi_op_softmax = {"softmax", softmax_backward, sizeof(int)};
const ls_function lsi_op_log_softmax = {"log_softmax", log_softmax_backward,
                                        sizeof(int)};

static const ls_function *const functions[] = {
    [LSI_SOFTMAX] = &lsi_op_softmax, [LSI_LOG_SOFTMAX] = &lsi_op_log_softmax};

static ls_tensor *softmax(ls_tape *tape, lsi_softmax_kind kind, ls_tensor *x,
                          int axis)
{
    const ls_function *const function = functions[kind];
    if (!lsi_op_begin_f32(tape, function, &x, 1))
        return NULL;
    if (axis < 0 || axis >= x->ndim)
        return ls_tape_fail(tape, LS_ERR_ARGUMENT,
                            "%s: the shape %s has no axis %d", function->name,
                            lsi_shape_of(x).text, axis);
    const ls_tensor *plain = lsi_op_plain(tape, x);
    ls_tensor *y = ls_tape_output(tape, LS_F32, x->ndim, x->shape);
    if (y == NULL)
        return NULL;
    lsi_softmax(kind, along(x, axis), lsi_op_floats(y), lsi_op_floats(plain));
    return ls_tape_record(tape, function, &axis, &x, 1, &y, 1, &y, 1);
}

ls_tensor *ls_softmax(ls_tape *tape, ls_tensor *x, int axis)
{
    return softmax(tape, LSI_SOFTMAX, x, axis);
}

ls_tensor *ls_log_softmax(ls_tape *tape, ls_tensor *x, int axis)
{
    return softmax(tape, LSI_LOG_SOFTMAX, x, axis);
}
