/*
 * Batch normalisation of x (N, C, ...) over all dimensions except its channels,
 * with n numbers per channel. Forward computes xhat = (x - mean) inv_std and
 * y = xhat weight + bias (+ residual), then max(y, 0) with relu. In training,
 * mean and the biased variance are those of the batch, and
 * inv_std = 1 / sqrt(var + eps). Backward, with dz = dy where the relu let y
 * through:
 *
 *     dbias   = sum dz          dweight = sum dz xhat      (over all but C)
 *     dx      = inv_std weight (dz - dbias / n - xhat dweight / n)
 *
 * In evaluation the running statistics are used, and nothing is recorded. A
 * batch with one number per channel has variance 0, which carries no
 * information: it does not change the running variance. An empty batch changes
 * neither the running mean nor the running variance.
 *
 * A plain (N, C) is a matrix of few rows, which one thread computes in f32. All
 * other inputs use image_norm.h.
 */
#include "array/compute/batch_norm.h"
#include "array/compute/array.h"
#include "base/error.h"
#include "base/structs.h"
#include "model/autograd/ops/image_norm.h"

enum { X, WEIGHT, BIAS };
enum { SAVED_X, SAVED_WEIGHT, SAVED_MEAN, SAVED_INV_STD };

static const float *floats_or_null(const ls_tensor *tensor)
{
    return tensor != NULL ? lsi_op_floats(tensor) : NULL;
}

/* ---- backward ------------------------------------------------------------ */

/* The saved tensors, as the argument of the kernels. */
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
    LS_TRY(lsi_image_norm_give(tape, node, BIAS, sums, bn.cols));
    LS_TRY(lsi_image_norm_give(tape, node, WEIGHT, sums + bn.cols, bn.cols));
    return backward_x(tape, node, &bn, dy, sums);
}

const ls_function lsi_op_batch_norm = {"batch_norm", batch_norm_backward, 0};

/* ---- forward ------------------------------------------------------------- */

static bool check_channels(ls_tape *tape, const ls_tensor *x,
                           const ls_tensor *tensor, const char *name)
{
    return tensor == NULL ||
           lsi_op_check_channels(tape, &lsi_op_batch_norm, x, tensor, name);
}

static bool check(ls_tape *tape, ls_tensor *x, const ls_batch_norm_args *args)
{
    ls_tensor *required[] = {args->running_mean, args->running_var};
    ls_tensor *weight = args->weight, *bias = args->bias;
    if (!lsi_op_begin_f32(tape, &lsi_op_batch_norm, required, 2) ||
        (weight != NULL &&
         !lsi_op_begin_f32(tape, &lsi_op_batch_norm, &weight, 1)) ||
        (bias != NULL && !lsi_op_begin_f32(tape, &lsi_op_batch_norm, &bias, 1)))
        return false;
    return check_channels(tape, x, args->weight, "weight") &&
           check_channels(tape, x, args->bias, "bias") &&
           check_channels(tape, x, args->running_mean, "running_mean") &&
           check_channels(tape, x, args->running_var, "running_var");
}

/* Uses the running statistics. */
static void use_running(const ls_batch_norm_args *args, float *mean,
                        float *inv_std, size_t cols)
{
    lsi_array_copy(mean, lsi_op_floats(args->running_mean), LS_F32, cols);
    lsi_batch_norm_inv_std(inv_std, lsi_op_floats(args->running_var), 1.0,
                           args->eps, cols);
}

/*
 * Uses the statistics of a batch of `rows` rows; inv_std holds M2 at first. A
 * pass that is computed again does not update the running statistics, since the
 * first pass has done so.
 */
static void use_batch(const ls_tape *tape, const ls_batch_norm_args *args,
                      float *mean, float *inv_std, double rows, size_t cols)
{
    const lsi_running running = {lsi_op_floats(args->running_mean),
                                 lsi_op_floats(args->running_var),
                                 args->momentum};
    if (!tape->again)
        lsi_batch_norm_track(&running, mean, inv_std, rows - 1.0, rows, cols);
    lsi_batch_norm_inv_std(inv_std, inv_std, rows > 0 ? rows : 1.0, args->eps,
                           cols);
}

static ls_status read_args(const ls_batch_norm_args *given,
                           ls_batch_norm_args *out)
{
    static const ls_batch_norm_args usual = LS_BATCH_NORM_ARGS_INIT;
    LS_TRY(LSI_STRUCT_READ(out, given, ls_batch_norm_args, residual));
    if (out->eps == 0)
        out->eps = usual.eps;
    if (out->eps > 0 && out->momentum >= 0 && out->momentum <= 1)
        return LS_OK;
    return lsi_fail(LS_ERR_ARGUMENT,
                    "batch_norm: eps is %g and momentum is %g; eps must be at "
                    "least 0, and momentum from 0 to 1",
                    out->eps, out->momentum);
}

static ls_tensor *normalise_matrix(ls_tape *tape, ls_tensor *x,
                                   const ls_batch_norm_args *args)
{
    ls_tensor *const inputs[] = {x, args->weight, args->bias};
    ls_tensor *const saved[] = {lsi_op_plain(tape, x), args->weight,
                                lsi_op_temp(tape, LS_F32, 1, &x->shape[1]),
                                lsi_op_temp(tape, LS_F32, 1, &x->shape[1])};
    ls_tensor *y = ls_tape_output(tape, LS_F32, 2, x->shape);
    if (y == NULL)
        return NULL;
    const size_t rows = (size_t)x->shape[0], cols = (size_t)x->shape[1];
    float *mean = lsi_op_floats(saved[SAVED_MEAN]);
    float *inv_std = lsi_op_floats(saved[SAVED_INV_STD]);
    const lsi_batch_norm bn = {.x = lsi_op_floats(saved[SAVED_X]),
                               .mean = mean,
                               .inv_std = inv_std,
                               .weight = floats_or_null(args->weight),
                               .bias = floats_or_null(args->bias),
                               .rows = rows,
                               .cols = cols};
    if (tape->training) {
        lsi_batch_norm_moments(bn.x, rows, cols, mean, inv_std);
        use_batch(tape, args, mean, inv_std, (double)rows, cols);
    } else {
        use_running(args, mean, inv_std, cols);
    }
    lsi_batch_norm_forward(&bn, lsi_op_floats(y));
    return ls_tape_record(tape, &lsi_op_batch_norm, NULL, inputs, 3, &y, 1,
                          saved, 4);
}

/* ---- images -------------------------------------------------------------- */

static ls_status batch_norm_images_backward(ls_tape *tape, ls_node *node)
{
    const bool *relu = ls_node_state(node);
    lsi_image_norm_grad g;
    LS_TRY(lsi_image_norm_sums(tape, node, *relu, &g));
    const size_t c = g.channels.channels;
    float *sums = ls_tape_scratch(tape, 4 * c * sizeof(float));
    LS_TRY(ls_tape_status(tape));
    float *dz = sums, *dz_d = sums + c, *p = sums + 2 * c, *q = sums + 3 * c;
    lsi_planes_fold(&g.channels, g.sum_dz, dz);
    lsi_planes_fold(&g.channels, g.sum_dz_d, dz_d);
    lsi_plane_stats_batch_dx(&g.stats, dz, dz_d,
                             (double)(g.channels.images * g.channels.pixels), p,
                             q);
    LS_TRY(lsi_image_norm_give(tape, node, LSI_NORM_BIAS, dz, c));
    lsi_array_mul(dz_d, dz_d, g.stats.inv_std, c);
    LS_TRY(lsi_image_norm_give(tape, node, LSI_NORM_WEIGHT, dz_d, c));
    return lsi_image_norm_finish(tape, node, &g, p, q);
}

const ls_function lsi_op_batch_norm_images = {
    "batch_norm_images", batch_norm_images_backward, sizeof(bool)};

/* Statistics of the batch in training, else the running statistics. */
static ls_status measure(ls_tape *tape, const ls_batch_norm_args *args,
                         const lsi_image_norm *n)
{
    const lsi_planes *s = &n->channels;
    const size_t each = s->images * s->channels;
    if (!tape->training) {
        use_running(args, n->stats.mean, n->stats.inv_std, s->channels);
        return LS_OK;
    }
    float *means = ls_tape_scratch(tape, 2 * each * sizeof(float));
    LS_TRY(ls_tape_status(tape));
    lsi_planes_moments(s, lsi_op_mixed(n->x), means, means + each);
    lsi_planes_merge(s, means, means + each, n->stats.mean, n->stats.inv_std);
    use_batch(tape, args, n->stats.mean, n->stats.inv_std,
              (double)(s->images * s->pixels), s->channels);
    return LS_OK;
}

static ls_tensor *normalise_images(ls_tape *tape, ls_tensor *x,
                                   const ls_batch_norm_args *args)
{
    ls_tensor *const inputs[] = {x, args->weight, args->bias, args->residual};
    lsi_image_norm n;
    if (!lsi_image_norm_open(tape, x, args->residual, args->relu, 1, &n))
        return NULL;
    const ls_status status = measure(tape, args, &n);
    if (status != LS_OK)
        return lsi_tape_stop(tape, status);
    lsi_plane_stats_scale(&n.stats, n.channels.channels,
                          floats_or_null(args->weight),
                          floats_or_null(args->bias));
    lsi_image_norm_apply(&n);
    return ls_tape_record(tape, &lsi_op_batch_norm_images, &args->relu, inputs,
                          LSI_NORM_INPUTS, &n.y, 1,
                          (ls_tensor *const[]){n.x, n.saved}, LSI_NORM_SAVED);
}

static ls_tensor *normalise(ls_tape *tape, ls_tensor *x,
                            ls_batch_norm_args *args)
{
    ls_tensor *residual = args->residual;
    if (x->ndim == 2) { /* in f32 also in mixed precision */
        x = lsi_op_wide(tape, x);
        residual = residual != NULL ? lsi_op_wide(tape, residual) : NULL;
    }
    if (x == NULL ||
        !lsi_image_norm_check(tape, &lsi_op_batch_norm, x, residual) ||
        !check(tape, x, args))
        return NULL;
    if (x->ndim == 2 && residual == NULL && !args->relu)
        return normalise_matrix(tape, x, args);
    args->residual = residual;
    return normalise_images(tape, x, args);
}

ls_tensor *ls_batch_norm(ls_tape *tape, ls_tensor *x,
                         const ls_batch_norm_args *args)
{
    ls_batch_norm_args own;
    if (!lsi_op_begin(tape, &lsi_op_batch_norm, &x, 1) ||
        !lsi_tape_has(tape, args, "batch_norm", "args"))
        return NULL;
    const ls_status status = read_args(args, &own);
    return status == LS_OK ? normalise(tape, x, &own)
                           : lsi_tape_stop(tape, status);
}
