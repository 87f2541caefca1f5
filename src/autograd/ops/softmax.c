/*
 * y = e^x / sum of e^x over one axis, x being centred at its largest first.
 *
 *     dx = y (dy - sum of dy y over the axis)
 *
 * or the logarithm of that, y = x - log of the sum of e^x:
 *
 *     dx = dy - e^y * sum of dy over the axis
 *
 * Computed in rows: if the axis is not the last one, the two are exchanged on
 * the way in and on the way out.
 */
#include "autograd/ops/ops.h"
#include "base/error.h"
#include "compute/row_norm.h"

/* A view with the axis and the last one exchanged. */
static ls_status turned(ls_tape *tape, const ls_tensor *tensor, int axis,
                        ls_tensor **out)
{
    LS_TRY(lsi_tensor_alias(tensor, tape->pool, out));
    LS_TRY(lsi_tape_own_temp(tape, *out));
    return lsi_view_transpose(*out, axis, tensor->ndim - 1);
}

/* The tensor as dense rows along the axis: itself, or a copy. */
static ls_status as_rows(ls_tape *tape, ls_tensor *tensor, int axis,
                         ls_tensor **out)
{
    LS_TRY(turned(tape, tensor, axis, out));
    *out = lsi_op_plain(tape, *out);
    return tape->status;
}

/* The reverse: rows into a tensor. */
static ls_status from_rows(ls_tape *tape, const ls_tensor *rows, int axis,
                           ls_tensor *tensor)
{
    ls_tensor *view = NULL;
    LS_TRY(turned(tape, rows, axis, &view));
    return ls_tensor_copy(tensor, view);
}

static lsi_rows rows_of(const ls_tensor *tensor)
{
    const size_t n = (size_t)tensor->count;
    const size_t cols = (size_t)tensor->shape[tensor->ndim - 1];
    return (lsi_rows){cols > 0 ? n / cols : 0, cols};
}

static ls_status backward(ls_tape *tape, ls_node *node, lsi_softmax_kind kind)
{
    const int *axis = ls_node_state(node);
    const ls_tensor *y = ls_node_saved(node, 0);
    ls_tensor *dy = ls_node_grad_output(tape, node, 0), *rows = NULL;
    lsi_target dx = {0};
    LS_TRY(ls_tape_status(tape));
    LS_TRY(as_rows(tape, dy, *axis, &rows));
    LS_TRY(lsi_target_open(tape, node, 0, LSI_LAYOUT_PLAIN, &dx));
    if (dx.grad == NULL)
        return LS_OK;
    ls_tensor *out = dx.out;
    if (*axis != y->ndim - 1)
        LS_TRY(lsi_tape_temp(tape, LS_F32, y->ndim, y->shape, LSI_LAYOUT_PLAIN,
                             &out));
    lsi_rows_softmax_backward(kind, rows_of(y), lsi_op_floats(out),
                              lsi_op_floats(rows), lsi_op_floats(y));
    if (out != dx.out)
        LS_TRY(from_rows(tape, out, *axis, dx.out));
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

/* y, and what backward is to know of it. */
static ls_status forward(ls_tape *tape, lsi_softmax_kind kind, ls_tensor *x,
                         int axis, ls_tensor *y, ls_tensor **saved)
{
    ls_tensor *rows = NULL;
    LS_TRY(as_rows(tape, x, axis, &rows));
    *saved = y;
    if (axis != x->ndim - 1)
        LS_TRY(lsi_tape_temp(tape, LS_F32, rows->ndim, rows->shape,
                             LSI_LAYOUT_PLAIN, saved));
    lsi_rows_softmax(kind, rows_of(rows), lsi_op_floats(*saved),
                     lsi_op_floats(rows));
    return *saved == y ? LS_OK : from_rows(tape, *saved, axis, y);
}

static ls_tensor *softmax(ls_tape *tape, lsi_softmax_kind kind, ls_tensor *x,
                          int axis)
{
    const ls_function *const function = functions[kind];
    ls_tensor *saved = NULL;
    if (!lsi_op_begin_f32(tape, function, &x, 1))
        return NULL;
    if (axis < 0 || axis >= x->ndim)
        return ls_tape_fail(tape, LS_ERR_ARGUMENT,
                            "%s: the shape %s has no axis %d", function->name,
                            lsi_shape_of(x).text, axis);
    ls_tensor *y = ls_tape_output(tape, LS_F32, x->ndim, x->shape);
    if (y == NULL)
        return NULL;
    const ls_status status = forward(tape, kind, x, axis, y, &saved);
    if (status != LS_OK)
        return lsi_tape_stop(tape, status);
    return ls_tape_record(tape, function, &axis, &x, 1, &y, 1, &saved, 1);
}

ls_tensor *ls_softmax(ls_tape *tape, ls_tensor *x, int axis)
{
    return softmax(tape, LSI_SOFTMAX, x, axis);
}

ls_tensor *ls_log_softmax(ls_tape *tape, ls_tensor *x, int axis)
{
    return softmax(tape, LSI_LOG_SOFTMAX, x, axis);
}
