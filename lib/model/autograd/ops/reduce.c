/*
 * Sums over all elements of an f32 tensor, to a tensor of no dimensions. The
 * sum is computed in double, in a fixed order.
 *
 *     sum    y = sum a       da = dy everywhere
 *     mean   y = sum a / n   da = dy / n everywhere; y = 0 for n = 0
 */
#include "array/compute/array.h"
#include "base/error.h"
#include "model/autograd/ops/ops.h"

static ls_status spread(ls_tape *tape, ls_node *node)
{
    const double *factor = ls_node_state(node);
    const ls_tensor *dy = lsi_node_grad_output_raw(tape, node, 0);
    lsi_target dx = {0};
    LS_TRY(lsi_target_open(tape, node, 0, LSI_LAYOUT_PLAIN, &dx));
    if (dx.grad == NULL)
        return LS_OK;
    lsi_array_spread(lsi_op_floats(dx.out), lsi_op_floats(dy), *factor,
                     (size_t)dx.out->count);
    return lsi_target_close(&dx);
}

const ls_function lsi_op_sum = {"sum", spread, sizeof(double)};
const ls_function lsi_op_mean = {"mean", spread, sizeof(double)};

static ls_tensor *reduce(ls_tape *tape, const ls_function *function,
                         ls_tensor *a)
{
    if (!lsi_op_begin_f32(tape, function, &a, 1))
        return NULL;
    const double n = function == &lsi_op_mean ? (double)a->count : 1.0;
    const double factor = n > 0 ? 1.0 / n : 0.0;
    const ls_tensor *x = lsi_op_plain(tape, a);
    ls_tensor *y = x != NULL ? ls_tape_output(tape, LS_F32, 0, NULL) : NULL;
    if (y == NULL)
        return NULL;
    lsi_array_sum(lsi_op_floats(y), lsi_op_floats(x), (size_t)x->count, factor);
    return ls_tape_record(tape, function, &factor, &a, 1, &y, 1, NULL, 0);
}

ls_tensor *ls_sum(ls_tape *tape, ls_tensor *a)
{
    return reduce(tape, &lsi_op_sum, a);
}

ls_tensor *ls_mean(ls_tape *tape, ls_tensor *a)
{
    return reduce(tape, &lsi_op_mean, a);
}
