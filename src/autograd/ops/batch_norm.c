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
#include "autograd/ops/batch_norm.h"

#include <math.h>

#include "autograd/ops/ops.h"
#include "autograd/span.h"
#include "base/error.h"
#include "kernels/kernels.h"

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
        lsi_kernels_get()->add(out, out, sum, cols);
    else
        lsi_kernels_get()->scale(out, sum, 1.0F, cols);
    return LS_OK;
}

static ls_status backward_x(ls_tape *tape, ls_node *node, const ls_tensor *dy,
                            float *sum_dy, float *sum_dy_xhat)
{
    const ls_tensor *x = ls_node_saved(node, SAVED_X);
    const size_t rows = (size_t)x->shape[0], cols = (size_t)x->shape[1];
    bool accumulate = false;
    const ls_tensor *dx = ls_node_grad_input(tape, node, X, &accumulate);
    if (dx == NULL || rows == 0)
        return ls_tape_status(tape);
    const lsi_kernels *k = lsi_kernels_get();
    const float inv_rows = 1.0F / (float)rows;
    k->scale(sum_dy, sum_dy, inv_rows, cols);
    k->scale(sum_dy_xhat, sum_dy_xhat, inv_rows, cols);
    k->batch_norm_dx(lsi_op_floats(dx), lsi_op_floats(dy), lsi_op_floats(x),
                     lsi_op_floats(ls_node_saved(node, SAVED_MEAN)),
                     lsi_op_floats(ls_node_saved(node, SAVED_INV_STD)),
                     floats_or_null(ls_node_saved(node, SAVED_WEIGHT)), sum_dy,
                     sum_dy_xhat, rows, cols, accumulate);
    return LS_OK;
}

static ls_status batch_norm_backward(ls_tape *tape, ls_node *node)
{
    const ls_tensor *x = ls_node_saved(node, SAVED_X);
    const ls_tensor *dy = ls_node_grad_output(tape, node, 0);
    const size_t rows = (size_t)x->shape[0], cols = (size_t)x->shape[1];
    float *sums = ls_tape_scratch(tape, 2 * cols * sizeof(float));
    if (dy == NULL || sums == NULL)
        return ls_tape_status(tape);
    lsi_kernels_get()->batch_norm_sums(
        sums, sums + cols, lsi_op_floats(dy), lsi_op_floats(x),
        lsi_op_floats(ls_node_saved(node, SAVED_MEAN)),
        lsi_op_floats(ls_node_saved(node, SAVED_INV_STD)), rows, cols);
    LS_TRY(give(tape, node, BIAS, sums, cols));
    LS_TRY(give(tape, node, WEIGHT, sums + cols, cols));
    return backward_x(tape, node, dy, sums, sums + cols);
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

void lsi_batch_norm_track(const ls_batch_norm_args *args, const float *mean,
                          const float *variance, double divisor, double rows)
{
    float *running_mean = lsi_op_floats(args->running_mean);
    float *running_var = lsi_op_floats(args->running_var);
    const int64_t cols = args->running_mean->count;
    const double m = args->momentum;
    for (int64_t c = 0; rows > 0 && c < cols; c++)
        running_mean[c] =
            (float)((1.0 - m) * (double)running_mean[c] + m * (double)mean[c]);
    for (int64_t c = 0; rows > 1 && c < cols; c++) {
        const double unbiased = (double)variance[c] / divisor;
        running_var[c] =
            (float)((1.0 - m) * (double)running_var[c] + m * unbiased);
    }
}

/* inv_std = 1 / sqrt(variance / n + eps); in place is fine. */
static void invert(float *inv_std, const float *variance, double n, double eps,
                   size_t cols)
{
    for (size_t c = 0; c < cols; c++)
        inv_std[c] = (float)(1.0 / sqrt((double)variance[c] / n + eps));
}

/* Statistics of the batch in training, else the running ones. */
static void statistics(const ls_tape *tape, const ls_batch_norm_args *args,
                       const ls_tensor *x, float *mean, float *inv_std)
{
    const size_t rows = (size_t)x->shape[0], cols = (size_t)x->shape[1];
    if (!tape->training) {
        lsi_kernels_get()->scale(mean, lsi_op_floats(args->running_mean), 1.0F,
                                 cols);
        invert(inv_std, lsi_op_floats(args->running_var), 1.0, args->eps, cols);
        return;
    }
    float *m2 = inv_std;
    lsi_kernels_get()->column_moments(mean, m2, lsi_op_floats(x), rows, cols);
    lsi_batch_norm_track(args, mean, m2, (double)rows - 1.0, (double)rows);
    invert(inv_std, m2, rows > 0 ? (double)rows : 1.0, args->eps, cols);
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
    lsi_kernels_get()->normalize_columns(
        lsi_op_floats(y), lsi_op_floats(saved[SAVED_X]), mean, inv_std,
        floats_or_null(args->weight), floats_or_null(args->bias),
        (size_t)x->shape[0], (size_t)x->shape[1]);
    return ls_tape_record(tape, &lsi_op_batch_norm, NULL, inputs, 3, &y, 1,
                          saved, 4);
}
