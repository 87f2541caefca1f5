/*
 * Elements by their place along an axis.
 *
 *     take_along   y[..j..] = x[..indices[..j..]..]   (PyTorch's gather)
 *                  dx = the sum of dy over the places that have its index
 *     argmax       the place of the largest; i64, without a gradient
 */
#include "array/compute/choose.h"
#include "base/error.h"
#include "model/autograd/ops/ops.h"

static lsi_choice choice_of(const ls_tensor *x, const ls_tensor *indices,
                            int axis)
{
    return (lsi_choice){.of = lsi_op_along(x, axis),
                        .m = (size_t)indices->shape[axis],
                        .indices = lsi_tensor_raw(indices)};
}

/* ---- take_along ---------------------------------------------------------- */

static ls_status take_along_backward(ls_tape *tape, ls_node *node)
{
    const int *axis = ls_node_state(node);
    const ls_tensor *dy = ls_node_grad_output(tape, node, 0);
    lsi_target dx = {0};
    LS_TRY(ls_tape_status(tape));
    LS_TRY(lsi_target_open(tape, node, 0, LSI_LAYOUT_PLAIN, &dx));
    if (dx.grad == NULL)
        return LS_OK;
    const lsi_choice choice = choice_of(dx.out, ls_node_saved(node, 0), *axis);
    LS_TRY(lsi_take_along_backward(&choice, lsi_op_floats(dx.out),
                                   lsi_op_floats(dy)));
    return lsi_target_close(&dx);
}

const ls_function lsi_op_take_along = {"take_along", take_along_backward,
                                       sizeof(int)};

/* x and indices have equal extents except along the axis. */
static bool check_extents(ls_tape *tape, const ls_tensor *x,
                          const ls_tensor *indices, int axis)
{
    bool fits = x->ndim == indices->ndim;
    for (int d = 0; fits && d < x->ndim; d++)
        fits = d == axis || x->shape[d] == indices->shape[d];
    if (!fits)
        ls_tape_fail(tape, LS_ERR_SHAPE,
                     "take_along: indices of shape %s do not fit x of shape "
                     "%s; the shapes may differ only along axis %d",
                     lsi_shape_of(indices).text, lsi_shape_of(x).text, axis);
    return fits;
}

ls_tensor *ls_take_along(ls_tape *tape, ls_tensor *x, ls_tensor *indices,
                         int axis)
{
    const ls_function *const op = &lsi_op_take_along;
    if (!lsi_op_begin(tape, op, (ls_tensor *const[]){x, indices}, 2) ||
        !lsi_op_check_dtype(tape, op, indices, LS_I64) ||
        !lsi_op_begin_f32(tape, op, &x, 1) ||
        !lsi_op_check_axis(tape, op, x, axis) ||
        !check_extents(tape, x, indices, axis))
        return NULL;
    const ls_tensor *from = lsi_op_plain(tape, x);
    ls_tensor *const saved = lsi_op_plain(tape, indices);
    ls_tensor *y = ls_tape_output(tape, LS_F32, x->ndim, indices->shape);
    if (y == NULL)
        return NULL;
    const lsi_choice choice = choice_of(x, saved, axis);
    const ls_status status =
        lsi_take_along(&choice, lsi_op_floats(y), lsi_op_floats(from));
    if (status != LS_OK)
        return lsi_tape_stop(tape, status);
    return ls_tape_record(tape, op, &axis, &x, 1, &y, 1, &saved, 1);
}

/* ---- argmax -------------------------------------------------------------- */

/* Only its name is used: argmax is not recorded. */
static const ls_function argmax = {"argmax", NULL, 0};

static ls_tensor *places(ls_tape *tape, const ls_tensor *x, int axis,
                         ls_axes_kept kept)
{
    int64_t shape[LS_MAX_DIMS];
    int ndim = 0;
    for (int d = 0; d < x->ndim; d++) {
        if (d != axis || kept == LS_AXES_KEEP)
            shape[ndim++] = d != axis ? x->shape[d] : 1;
    }
    return ls_tape_output(tape, LS_I64, ndim, shape);
}

ls_tensor *ls_argmax(ls_tape *tape, ls_tensor *x, int axis, ls_axes_kept kept)
{
    if (!lsi_op_begin_f32(tape, &argmax, &x, 1) ||
        !lsi_op_check_axis(tape, &argmax, x, axis) ||
        !lsi_op_check_filled(tape, &argmax, x, axis))
        return NULL;
    const ls_tensor *plain = lsi_op_plain(tape, x);
    ls_tensor *y = places(tape, x, axis, kept);
    if (y == NULL)
        return NULL;
    lsi_argmax(lsi_op_along(x, axis), lsi_tensor_raw(y), lsi_op_floats(plain));
    return y;
}
