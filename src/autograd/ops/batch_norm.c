/*
 * Batch normalisation of x (N, C) over its N rows, xhat = (x - mean) inv_std,
 * y = xhat weight + bias. In training, mean and the biased variance are those
 * of the batch, inv_std = 1 / sqrt(var + eps), and
 *
 *     dbias   = sum dy          dweight = sum dy xhat      (over N)
 *     dx      = inv_std weight (dy - dbias / N - xhat dweight / N)
 *
 * Otherwise they are the running ones, and nothing is recorded. A batch of one
 * row has variance 0 and leaves the running variance alone, since it says
 * nothing about it; one of no rows leaves both alone.
 */
#include "compute/batch_norm.h"
#include "autograd/ops/ops.h"
#include "base/error.h"
#include "compute/array.h"

enum { X, WEIGHT, BIAS };
enum { SAVED_X, SAVED_WEIGHT, SAVED_MEAN, SAVED_INV_STD };

static const float *floats_or_null(const ls_tensor *tensor)
{
    return tensor != NULL ? lsi_op_floats(tensor) : NULL;
}

/* ---- backward ------------------------------------------------------------ */

/* Writes or adds `sum` to the gradient of weight or bias. */
static ls_status give(ls_tape *tape, ls_node *node, int index, const float *sum,
                      size_t cols)
{
    bool accumulate = false;
    const ls_tensor *grad = ls_node_grad_input(tape, node, index, &accumulate);
    if (grad == NULL)
        return ls_tape_status(tape);
    float *out = lsi_op_floats(grad);
    if (accumulate)
        lsi_array_add(out, out, sum, cols);
    else
        lsi_array_copy(out, sum, LS_F32, cols);
    return LS_OK;
}

/* What is saved, as its operation takes it. */
static lsi_batch_norm saved_of(const ls_node *node)
{
    const ls_tensor *x = ls_node_saved(node, SAVED_X);
    return (lsi_batch_norm){
        .x = lsi_op_floats(x),
        .mean = lsi_op_floats(ls_node_saved(node, SAVED_MEAN)),
        .inv_std = lsi_op_floats(ls_node_saved(node, SAVED_INV_STD)),
        .weight = floats_or_null(ls_node_saved(node, SAVED_WEIGHT)),
        .rows = (size_t)x->shape[0],
        .cols = (size_t)x->shape[1]};
}

/* `sums` of dy and of dy xhat. */
static ls_status backward_x(ls_tape *tape, ls_node *node,
                            const lsi_batch_norm *bn, const ls_tensor *dy,
                            float *sums)
{
    bool accumulate = false;
    const ls_tensor *dx = ls_node_grad_input(tape, node, X, &accumulate);
    if (dx == NULL || bn->rows == 0)
        return ls_tape_status(tape);
    lsi_array_scale(sums, sums, 1.0F / (float)bn->rows, 2 * bn->cols);
    lsi_batch_norm_backward(bn, lsi_op_floats(dy), sums, sums + bn->cols,
                            lsi_op_floats(dx), accumulate);
    return LS_OK;
}

static ls_status batch_norm_backward(ls_tape *tape, ls_node *node)
{
    const lsi_batch_norm bn = saved_of(node);
    const ls_tensor *dy = ls_node_grad_output(tape, node, 0);
    float *sums = ls_tape_scratch(tape, 2 * bn.cols * sizeof(float));
    if (dy == NULL || sums == NULL)
        return ls_tape_status(tape);
    lsi_batch_norm_sums(&bn, lsi_op_floats(dy), sums, sums + bn.cols);
    LS_TRY(give(tape, node, BIAS, sums, bn.cols));
    LS_TRY(give(tape, node, WEIGHT, sums + bn.cols, bn.cols));
    return backward_x(tape, node, &bn, dy, sums);
}

const ls_function lsi_op_batch_norm = {"batch_norm", batch_norm_backward, 0};

/* ---- forward ------------------------------------------------------------- */

static bool check_channels(ls_tape *tape, const ls_tensor *x,
                           const ls_tensor *tensor, const char *name)
{
    if (tensor->ndim == 1 && tensor->shape[0] == x->shape[1] &&
        ls_tensor_is_contiguous(tensor))
        return true;
    ls_tape_fail(tape, LS_ERR_SHAPE,
                 "batch_norm: %s %s should be contiguous (C), x being %s "
                 "(N, C)",
                 name, lsi_shape_of(tensor).text, lsi_shape_of(x).text);
    return false;
}

static bool check(ls_tape *tape, ls_tensor *x, const ls_batch_norm_args *args)
{
    if (!lsi_tape_has(tape, args, "batch_norm", "args"))
        return false;
    ls_tensor *required[] = {args->running_mean, args->running_var};
    ls_tensor *weight = args->weight, *bias = args->bias;
    if (!lsi_op_check_ndim(tape, &lsi_op_batch_norm, x, 2, "(N, C)") ||
        !lsi_op_begin_f32(tape, &lsi_op_batch_norm, required, 2) ||
        (weight != NULL &&
         !lsi_op_begin_f32(tape, &lsi_op_batch_norm, &weight, 1)) ||
        (bias != NULL && !lsi_op_begin_f32(tape, &lsi_op_batch_norm, &bias, 1)))
        return false;
    return (args->weight == NULL ||
            check_channels(tape, x, args->weight, "weight")) &&
           (args->bias == NULL ||
            check_channels(tape, x, args->bias, "bias")) &&
           check_channels(tape, x, args->running_mean, "running_mean") &&
           check_channels(tape, x, args->running_var, "running_var");
}

/* Statistics of the batch in training, else the running ones. */
static void statistics(const ls_tape *tape, const ls_batch_norm_args *args,
                       const ls_tensor *x, float *mean, float *inv_std)
{
    const size_t rows = (size_t)x->shape[0], cols = (size_t)x->shape[1];
    if (!tape->training) {
        lsi_array_copy(mean, lsi_op_floats(args->running_mean), LS_F32, cols);
        lsi_batch_norm_inv_std(inv_std, lsi_op_floats(args->running_var), 1.0,
                               args->eps, cols);
        return;
    }
    float *m2 = inv_std;
    const lsi_running running = {lsi_op_floats(args->running_mean),
                                 lsi_op_floats(args->running_var),
                                 args->momentum};
    lsi_batch_norm_moments(lsi_op_floats(x), rows, cols, mean, m2);
    lsi_batch_norm_track(&running, mean, m2, (double)rows - 1.0, (double)rows,
                         cols);
    lsi_batch_norm_inv_std(inv_std, m2, rows > 0 ? (double)rows : 1.0,
                           args->eps, cols);
}

ls_tensor *ls_batch_norm(ls_tape *tape, ls_tensor *x,
                         const ls_batch_norm_args *args)
{
    if (!lsi_op_begin_f32(tape, &lsi_op_batch_norm, &x, 1) ||
        !check(tape, x, args))
        return NULL;
    ls_tensor *const inputs[] = {x, args->weight, args->bias};
    ls_tensor *const saved[] = {lsi_op_plain(tape, x), args->weight,
                                lsi_op_temp(tape, LS_F32, 1, &x->shape[1]),
                                lsi_op_temp(tape, LS_F32, 1, &x->shape[1])};
    ls_tensor *y = ls_tape_output(tape, LS_F32, 2, x->shape);
    if (y == NULL)
        return NULL;
    float *mean = lsi_op_floats(saved[SAVED_MEAN]);
    float *inv_std = lsi_op_floats(saved[SAVED_INV_STD]);
    statistics(tape, args, saved[SAVED_X], mean, inv_std);
    const lsi_batch_norm bn = {.x = lsi_op_floats(saved[SAVED_X]),
                               .mean = mean,
                               .inv_std = inv_std,
                               .weight = floats_or_null(args->weight),
                               .bias = floats_or_null(args->bias),
                               .rows = (size_t)x->shape[0],
                               .cols = (size_t)x->shape[1]};
    lsi_batch_norm_forward(&bn, lsi_op_floats(y));
    return ls_tape_record(tape, &lsi_op_batch_norm, NULL, inputs, 3, &y, 1,
                          saved, 4);
}
