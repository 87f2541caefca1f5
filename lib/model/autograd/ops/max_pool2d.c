/*
 * y (N, C, H/s, W/s) = maxima of the s x s windows of x (N, C, H, W). The
 * remainder of H and W is dropped. The layout of x is any, that of y is plain.
 *
 *     dx = dy at the first maximum of its window, else 0
 *
 * The place of each maximum is saved, one byte per element of y.
 */
#include "base/error.h"
#include "model/autograd/ops/ops.h"

static ls_status max_pool2d_backward(ls_tape *tape, ls_node *node)
{
    const lsi_pool2d *shape = ls_node_state(node);
    const ls_tensor *dy = ls_node_grad_output(tape, node, 0);
    LS_TRY(ls_tape_status(tape));
    lsi_target dx = {0};
    LS_TRY(lsi_target_open(tape, node, 0, shape->src_layout, &dx));
    if (dx.grad == NULL)
        return LS_OK;
    if (dx.grad->count > 0)
        lsi_max_pool2d_backward(shape, lsi_op_floats(dx.out), lsi_op_floats(dy),
                                lsi_tensor_raw(ls_node_saved(node, 0)));
    return lsi_target_close(&dx);
}

const ls_function lsi_op_max_pool2d = {"max_pool2d", max_pool2d_backward,
                                       sizeof(lsi_pool2d)};

static bool check(ls_tape *tape, const ls_tensor *x, int size)
{
    if (!lsi_op_check_ndim(tape, &lsi_op_max_pool2d, x, 4,
                           "(N, C, H, W) for x"))
        return false;
    if (size < 1 || size > 15)
        return ls_tape_fail(tape, LS_ERR_ARGUMENT,
                            "max_pool2d: size is %d; it must be from 1 to 15",
                            size) != NULL;
    if (x->shape[2] >= size && x->shape[3] >= size)
        return true;
    return ls_tape_fail(tape, LS_ERR_SHAPE,
                        "max_pool2d: a window of %d x %d does not fit images "
                        "of shape %s (N, C, H, W)",
                        size, size, lsi_shape_of(x).text) != NULL;
}

ls_tensor *lsi_max_pool2d(ls_tape *tape, ls_tensor *x, int size)
{
    if (!lsi_op_begin_f32(tape, &lsi_op_max_pool2d, &x, 1) ||
        !check(tape, x, size))
        return NULL;
    const ls_tensor *dense = lsi_op_dense(tape, x);
    const int64_t out[4] = {x->shape[0], x->shape[1], x->shape[2] / size,
                            x->shape[3] / size};
    ls_tensor *index = lsi_op_temp(tape, LS_U8, 4, out);
    ls_tensor *y = ls_tape_output(tape, LS_F32, 4, out);
    if (y == NULL)
        return NULL;
    const lsi_pool2d shape = {.n = x->shape[0],
                              .c = x->shape[1],
                              .h = x->shape[2],
                              .w = x->shape[3],
                              .size = size,
                              .src_layout = lsi_tensor_layout(dense)};
    if (y->count > 0)
        lsi_max_pool2d_forward(&shape, lsi_op_floats(y), lsi_tensor_raw(index),
                               lsi_op_floats(dense));
    return ls_tape_record(tape, &lsi_op_max_pool2d, &shape, &x, 1, &y, 1,
                          &index, 1);
}
