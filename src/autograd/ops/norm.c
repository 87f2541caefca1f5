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
 *
 * Sums over rows are taken over blocks of a fixed number of them, so that
 * threads do not change them.
 */
#include "autograd/ops/ops.h"
#include "autograd/span.h"
#include "base/error.h"
#include "base/threads.h"
#include "kernels/kernels.h"

enum { X, WEIGHT, BIAS };
enum { SAVED_X, SAVED_WEIGHT, SAVED_INV_STD, SAVED_MEAN };
enum { BLOCK = LSI_COLUMN_BLOCK };

typedef struct norm_job {
    float *y, *mean, *inv_std; /* forward; mean may be NULL */
    const float *x, *weight, *bias;
    float *dx, *dweight, *dbias; /* backward; the sums [blocks][cols] */
    const float *dy;
    size_t rows, cols;
    float eps;
    bool accumulate;
} norm_job;

static size_t block_count(size_t rows)
{
    return (rows + BLOCK - 1) / BLOCK;
}

static size_t rows_of_block(const norm_job *j, size_t block)
{
    const size_t left = j->rows - block * BLOCK;
    return left < BLOCK ? left : BLOCK;
}

static void forward_block(void *context, size_t block, int worker)
{
    const norm_job *j = context;
    const size_t row = block * BLOCK, at = row * j->cols;
    (void)worker;
    lsi_kernels_get()->normalize_rows(
        j->y + at, j->mean != NULL ? j->mean + row : NULL, j->inv_std + row,
        j->x + at, j->weight, j->bias, rows_of_block(j, block), j->cols,
        j->eps);
}

static void backward_block(void *context, size_t block, int worker)
{
    const norm_job *j = context;
    const size_t row = block * BLOCK, at = row * j->cols;
    (void)worker;
    lsi_kernels_get()->normalize_rows_backward(
        j->dx + at, j->dweight + block * j->cols,
        j->dbias != NULL ? j->dbias + block * j->cols : NULL, j->dy + at,
        j->x + at, j->mean != NULL ? j->mean + row : NULL, j->inv_std + row,
        j->weight, rows_of_block(j, block), j->cols, j->accumulate);
}

/* ---- backward ------------------------------------------------------------ */

/* The sums of the blocks to the gradient of weight or bias. */
static ls_status give(ls_tape *tape, ls_node *node, int index,
                      const float *blocks, const norm_job *j)
{
    bool accumulate = false;
    const ls_tensor *grad = ls_node_grad_input(tape, node, index, &accumulate);
    if (grad == NULL)
        return ls_tape_status(tape);
    lsi_kernels_get()->column_sum(lsi_op_floats(grad), blocks,
                                  block_count(j->rows), j->cols, accumulate);
    return LS_OK;
}

/* Where dx goes: scratch memory if nobody needs it. */
static float *open_dx(ls_tape *tape, ls_node *node, norm_job *j)
{
    const ls_tensor *dx = ls_node_grad_input(tape, node, X, &j->accumulate);
    return dx != NULL
               ? lsi_op_floats(dx)
               : ls_tape_scratch(tape, j->rows * j->cols * sizeof(float));
}

static ls_status norm_backward(ls_tape *tape, ls_node *node)
{
    const ls_tensor *x = ls_node_saved(node, SAVED_X);
    const ls_tensor *mean = ls_node_saved(node, SAVED_MEAN);
    const ls_tensor *dy = ls_node_grad_output(tape, node, 0);
    norm_job j = {
        .x = lsi_op_floats(x),
        .weight = lsi_op_floats(ls_node_saved(node, SAVED_WEIGHT)),
        .inv_std = lsi_op_floats(ls_node_saved(node, SAVED_INV_STD)),
        .mean = mean != NULL ? lsi_op_floats(mean) : NULL,
        .rows = (size_t)ls_node_saved(node, SAVED_INV_STD)->count,
        .cols = (size_t)x->shape[x->ndim - 1],
    };
    const size_t sums = block_count(j.rows) * j.cols;
    j.dx = open_dx(tape, node, &j);
    j.dweight = ls_tape_scratch(tape, 2 * sums * sizeof(float));
    if (dy == NULL || j.dx == NULL || j.dweight == NULL)
        return ls_tape_status(tape);
    j.dy = lsi_op_floats(dy);
    j.dbias = ls_node_input(node, BIAS) != NULL ? j.dweight + sums : NULL;
    lsi_parallel_tasks(block_count(j.rows), backward_block, &j);
    if (j.dbias != NULL)
        LS_TRY(give(tape, node, BIAS, j.dbias, &j));
    return give(tape, node, WEIGHT, j.dweight, &j);
}

const ls_function lsi_op_rms_norm = {"rms_norm", norm_backward, 0};
const ls_function lsi_op_layer_norm = {"layer_norm", norm_backward, 0};

/* ---- forward ------------------------------------------------------------- */

static bool check_features(ls_tape *tape, const ls_function *function,
                           const ls_tensor *x, const ls_tensor *tensor,
                           const char *name)
{
    if (x->ndim >= 1 && x->shape[x->ndim - 1] > 0 && tensor->ndim == 1 &&
        tensor->shape[0] == x->shape[x->ndim - 1])
        return true;
    ls_tape_fail(tape, LS_ERR_SHAPE,
                 "%s: x %s and %s %s should be (..., D) and (D), D at least 1",
                 function->name, lsi_shape_of(x).text, name,
                 lsi_shape_of(tensor).text);
    return false;
}

/* A saved statistic, one number a row. */
static ls_tensor *per_row(ls_tape *tape, const ls_tensor *x)
{
    const int64_t rows = x->count / x->shape[x->ndim - 1];
    return lsi_op_temp(tape, LS_F32, 1, &rows);
}

static ls_tensor *normalise(ls_tape *tape, const ls_function *function,
                            ls_tensor *const *in, double eps)
{
    const bool centred = function == &lsi_op_layer_norm;
    ls_tensor *const saved[] = {
        lsi_op_plain(tape, in[X]), lsi_op_plain(tape, in[WEIGHT]),
        per_row(tape, in[X]), centred ? per_row(tape, in[X]) : NULL};
    const ls_tensor *bias = centred ? lsi_op_plain(tape, in[BIAS]) : NULL;
    ls_tensor *y = ls_tape_output(tape, LS_F32, in[X]->ndim, in[X]->shape);
    if (y == NULL)
        return NULL;
    norm_job j = {
        .y = lsi_op_floats(y),
        .x = lsi_op_floats(saved[SAVED_X]),
        .weight = lsi_op_floats(saved[SAVED_WEIGHT]),
        .bias = centred ? lsi_op_floats(bias) : NULL,
        .inv_std = lsi_op_floats(saved[SAVED_INV_STD]),
        .mean = centred ? lsi_op_floats(saved[SAVED_MEAN]) : NULL,
        .rows = (size_t)saved[SAVED_INV_STD]->count,
        .cols = (size_t)y->shape[y->ndim - 1],
        .eps = (float)eps,
    };
    lsi_parallel_tasks(block_count(j.rows), forward_block, &j);
    return ls_tape_record(tape, function, NULL, in, centred ? 3 : 2, &y, 1,
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
