/*
 * Normalisation of rows: x (..., D), over D.
 *
 *     rms_norm     y = x_hat weight           x_hat = x / sqrt(mean x^2 + eps)
 *     layer_norm   y = x_hat weight + bias    x_hat = (x - mean x) /
 *                                                     sqrt(var x + eps)
 *
 * With g = dy weight and s the factor of x_hat, means being over the row:
 *
 *     dweight = sum dy x_hat     dbias = sum dy                  (over rows)
 *     dx      = s (g - mean(g) - x_hat mean(g x_hat)), mean(g) in the second
 */
#include "array/compute/array.h"
#include "array/compute/row_norm.h"
#include "base/error.h"
#include "model/autograd/ops/ops.h"

enum { X, WEIGHT, BIAS };
enum { SAVED_X, SAVED_WEIGHT, SAVED_INV_STD, SAVED_MEAN };

/* ---- backward ------------------------------------------------------------ */

/* The tensors that forward saved or saves. */
static lsi_row_norm norm_of(const ls_tensor *x, const ls_tensor *weight,
                            const ls_tensor *inv_std, const ls_tensor *mean)
{
    return (lsi_row_norm){.x = lsi_op_floats(x),
                          .weight = lsi_op_floats(weight),
                          .inv_std = lsi_op_floats(inv_std),
                          .mean = mean != NULL ? lsi_op_floats(mean) : NULL,
                          .rows = (size_t)inv_std->count,
                          .cols = (size_t)x->shape[x->ndim - 1]};
}

/* The same of some rows. */
static lsi_row_norm rows_of(lsi_row_norm n, lsi_range rows)
{
    n.x += rows.begin * n.cols;
    n.inv_std += rows.begin;
    n.mean = n.mean != NULL ? n.mean + rows.begin : NULL;
    n.rows = lsi_range_size(rows);
    return n;
}

/* Writes or adds the sums of the blocks to the gradient of weight or bias. */
static ls_status add_to_gradient(ls_tape *tape, ls_node *node, int index,
                                 int slice, const float *blocks,
                                 const lsi_row_norm *norm)
{
    lsi_slice_grad grad;
    LS_TRY(lsi_node_grad_slice(tape, node, index, slice, &grad));
    if (grad.data != NULL)
        lsi_array_column_sum(grad.data, blocks, lsi_row_norm_blocks(norm->rows),
                             norm->cols, grad.accumulate);
    return LS_OK;
}

static ls_status backward_slice(ls_tape *tape, ls_node *node,
                                const lsi_row_norm *whole,
                                lsi_row_norm_gradients g, int slice)
{
    const lsi_slicing *s = ls_node_state(node);
    const size_t batch = s->samples * s->each;
    const size_t each = batch > 0 ? whole->rows / batch : 0;
    const lsi_range cut = lsi_slicing_rows(s, slice);
    const lsi_range rows = {cut.begin * each, cut.end * each};
    const lsi_row_norm norm = rows_of(*whole, rows);
    g.dy += rows.begin * norm.cols;
    g.dx += rows.begin * norm.cols;
    lsi_row_norm_backward(&norm, &g);
    if (g.dbias != NULL)
        LS_TRY(add_to_gradient(tape, node, BIAS, slice, g.dbias, &norm));
    return add_to_gradient(tape, node, WEIGHT, slice, g.dweight, &norm);
}

static ls_status norm_backward(ls_tape *tape, ls_node *node)
{
    const lsi_slicing *s = ls_node_state(node);
    const ls_tensor *x = ls_node_saved(node, SAVED_X);
    const ls_tensor *dy = ls_node_grad_output(tape, node, 0);
    const lsi_row_norm norm = norm_of(x, ls_node_saved(node, SAVED_WEIGHT),
                                      ls_node_saved(node, SAVED_INV_STD),
                                      ls_node_saved(node, SAVED_MEAN));
    const size_t sums = lsi_row_norm_blocks(norm.rows) * norm.cols;
    lsi_row_norm_gradients g = {0};
    const ls_tensor *dx = ls_node_grad_input(tape, node, X, &g.accumulate);
    /* A dx that is not needed goes to scratch memory. */
    g.dx = dx != NULL ? lsi_op_floats(dx)
                      : ls_tape_scratch(tape, (size_t)x->count * sizeof(float));
    g.dweight = ls_tape_scratch(tape, 2 * sums * sizeof(float));
    if (dy == NULL || g.dx == NULL || g.dweight == NULL)
        return ls_tape_status(tape);
    g.dy = lsi_op_floats(dy);
    g.dbias = ls_node_input(node, BIAS) != NULL ? g.dweight + sums : NULL;
    for (int j = 0; j < s->slices; j++)
        LS_TRY(backward_slice(tape, node, &norm, g, j));
    return LS_OK;
}

const ls_function lsi_op_rms_norm = {"rms_norm", norm_backward,
                                     sizeof(lsi_slicing)};
const ls_function lsi_op_layer_norm = {"layer_norm", norm_backward,
                                       sizeof(lsi_slicing)};

/* ---- forward ------------------------------------------------------------- */

static bool check_features(ls_tape *tape, const ls_function *function,
                           const ls_tensor *x, const ls_tensor *tensor,
                           const char *name)
{
    if (x->ndim >= 1 && x->shape[x->ndim - 1] > 0 && tensor->ndim == 1 &&
        tensor->shape[0] == x->shape[x->ndim - 1])
        return true;
    ls_tape_fail(tape, LS_ERR_SHAPE,
                 "%s: x has shape %s and %s has shape %s; they must be (..., "
                 "D) and (D), with D at least 1",
                 function->name, lsi_shape_of(x).text, name,
                 lsi_shape_of(tensor).text);
    return false;
}

/* A saved statistic, one number per row. */
static ls_tensor *per_row(ls_tape *tape, const ls_tensor *x)
{
    const int64_t rows = x->count / x->shape[x->ndim - 1];
    return lsi_op_temp(tape, LS_F32, 1, &rows);
}

static ls_tensor *normalise(ls_tape *tape, const ls_function *function,
                            ls_tensor *const *in, double eps)
{
    const bool centred = function == &lsi_op_layer_norm;
    lsi_slicing slicing;
    if (!lsi_slicing_of(tape, function, in[WEIGHT],
                        in[X]->ndim > 1 ? in[X]->shape[0] : 1, &slicing))
        return NULL;
    ls_tensor *const saved[] = {
        lsi_op_plain(tape, in[X]), lsi_op_plain(tape, in[WEIGHT]),
        per_row(tape, in[X]), centred ? per_row(tape, in[X]) : NULL};
    const ls_tensor *bias = centred ? lsi_op_plain(tape, in[BIAS]) : NULL;
    ls_tensor *y = ls_tape_output(tape, LS_F32, in[X]->ndim, in[X]->shape);
    if (y == NULL)
        return NULL;
    lsi_row_norm norm = norm_of(saved[SAVED_X], saved[SAVED_WEIGHT],
                                saved[SAVED_INV_STD], saved[SAVED_MEAN]);
    norm.bias = centred ? lsi_op_floats(bias) : NULL;
    lsi_row_norm_forward(&norm, lsi_op_floats(y), (float)eps);
    return ls_tape_record(tape, function, &slicing, in, centred ? 3 : 2, &y, 1,
                          saved, 4);
}

ls_tensor *ls_rms_norm(ls_tape *tape, ls_tensor *x, ls_tensor *weight,
                       double eps)
{
    ls_tensor *in[] = {x, weight};
    if (!lsi_op_begin_f32(tape, &lsi_op_rms_norm, in, 2) ||
        !check_features(tape, &lsi_op_rms_norm, x, weight, "weight"))
        return NULL;
    return normalise(tape, &lsi_op_rms_norm, in, eps);
}

ls_tensor *ls_layer_norm(ls_tape *tape, ls_tensor *x, ls_tensor *weight,
                         ls_tensor *bias, double eps)
{
    ls_tensor *in[] = {x, weight, bias};
    if (!lsi_op_begin_f32(tape, &lsi_op_layer_norm, in, 3) ||
        !check_features(tape, &lsi_op_layer_norm, x, weight, "weight") ||
        !check_features(tape, &lsi_op_layer_norm, x, bias, "bias"))
        return NULL;
    return normalise(tape, &lsi_op_layer_norm, in, eps);
}
