/*
 * y = e^x / sum of e^x over one axis, after x is centred at its largest
 * element.
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

static lsi_softmax_kind kind_of(const ls_function *function)
{
    return function == &lsi_op_softmax ? LSI_SOFTMAX : LSI_LOG_SOFTMAX;
}

static ls_status backward(ls_tape *tape, ls_node *node)
{
    const int *axis = ls_node_state(node);
    const ls_tensor *y = ls_node_saved(node, 0);
    const ls_tensor *dy = ls_node_grad_output(tape, node, 0);
    lsi_target dx = {0};
    LS_TRY(ls_tape_status(tape));
    LS_TRY(lsi_target_open(tape, node, 0, LSI_LAYOUT_PLAIN, &dx));
    if (dx.grad == NULL)
        return LS_OK;
    lsi_softmax_backward(kind_of(node->function), lsi_op_along(y, *axis),
                         lsi_op_floats(dx.out), lsi_op_floats(dy),
                         lsi_op_floats(y));
    return lsi_target_close(&dx);
}

const ls_function lsi_op_softmax = {"softmax", backward, sizeof(int)};
const ls_function lsi_op_log_softmax = {"log_softmax", backward, sizeof(int)};

static ls_tensor *softmax(ls_tape *tape, const ls_function *function,
                          ls_tensor *x, int axis)
{
    if (!lsi_op_begin_f32(tape, function, &x, 1) ||
        !lsi_op_check_axis(tape, function, x, axis))
        return NULL;
    const ls_tensor *plain = lsi_op_plain(tape, x);
    ls_tensor *y = ls_tape_output(tape, LS_F32, x->ndim, x->shape);
    if (y == NULL)
        return NULL;
    lsi_softmax(kind_of(function), lsi_op_along(x, axis), lsi_op_floats(y),
                lsi_op_floats(plain));
    return ls_tape_record(tape, function, &axis, &x, 1, &y, 1, &y, 1);
}

ls_tensor *ls_softmax(ls_tape *tape, ls_tensor *x, int axis)
{
    return softmax(tape, &lsi_op_softmax, x, axis);
}

ls_tensor *ls_log_softmax(ls_tape *tape, ls_tensor *x, int axis)
{
    return softmax(tape, &lsi_op_log_softmax, x, axis);
}
