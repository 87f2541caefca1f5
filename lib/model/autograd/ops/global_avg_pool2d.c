/*
 * y (N, C) = means of the channels of x (N, C, H, W), which may have any real
 * type in mixed precision and any layout; y is f32.
 *
 *     dx = dy / (H W), all over the channel
 */
#include "array/compute/array.h"
#include "array/compute/planes.h"
#include "base/error.h"
#include "model/autograd/ops/ops.h"

static ls_status global_avg_pool2d_backward(ls_tape *tape, ls_node *node)
{
    const lsi_layout *layout = ls_node_state(node);
    const ls_tensor *dy = ls_node_grad_output(tape, node, 0);
    lsi_target dx = {0};
    LS_TRY(ls_tape_status(tape));
    LS_TRY(lsi_target_open(tape, node, 0, *layout, &dx));
    if (dx.grad == NULL)
        return LS_OK;
    const lsi_planes s = lsi_planes_of(*layout, 4, dx.out->shape);
    float *each = ls_tape_scratch(tape, (size_t)dy->count * sizeof(float));
    LS_TRY(ls_tape_status(tape));
    lsi_array_scale(each, lsi_op_floats(dy), 1.0F / (float)s.pixels,
                    (size_t)dy->count);
    lsi_planes_fill(&s, lsi_op_mixed(dx.out), each);
    return lsi_target_close(&dx);
}

const ls_function lsi_op_global_avg_pool2d = {
    "global_avg_pool2d", global_avg_pool2d_backward, sizeof(lsi_layout)};

ls_tensor *ls_global_avg_pool2d(ls_tape *tape, ls_tensor *x)
{
    if (!lsi_op_begin_mixed(tape, &lsi_op_global_avg_pool2d, &x, 1) ||
        !lsi_op_check_ndim(tape, &lsi_op_global_avg_pool2d, x, 4,
                           "(N, C, H, W) for x"))
        return NULL;
    if (x->shape[2] * x->shape[3] == 0)
        return ls_tape_fail(tape, LS_ERR_SHAPE,
                            "global_avg_pool2d: images of shape %s (N, C, H, "
                            "W) have no pixels; H and W must be at least 1",
                            lsi_shape_of(x).text);
    const ls_tensor *dense = lsi_op_dense(tape, x);
    ls_tensor *y = ls_tape_output(tape, LS_F32, 2, x->shape);
    float *spare = y != NULL
                       ? ls_tape_scratch(tape, (size_t)y->count * sizeof(float))
                       : NULL;
    if (dense == NULL || spare == NULL)
        return NULL;
    const lsi_layout layout = lsi_tensor_layout(dense);
    const lsi_planes s = lsi_planes_of(layout, 4, x->shape);
    lsi_planes_total(&s, lsi_op_mixed(dense), lsi_op_floats(y), spare);
    lsi_array_scale(lsi_op_floats(y), lsi_op_floats(y), 1.0F / (float)s.pixels,
                    (size_t)y->count);
    return ls_tape_record(tape, &lsi_op_global_avg_pool2d, &layout, &x, 1, &y,
                          1, NULL, 0);
}
