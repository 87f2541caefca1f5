/* Normalisation of channels; see image_norm.h. */
#include "model/autograd/ops/image_norm.h"

#include "array/compute/array.h"
#include "base/error.h"

/* ---- forward ------------------------------------------------------------- */

static lsi_plane_stats stats_of(const ls_tensor *saved)
{
    const size_t count = (size_t)saved->count / 4;
    float *data = lsi_op_floats(saved);
    return (lsi_plane_stats){.mean = data,
                             .inv_std = data + count,
                             .scale = data + 2 * count,
                             .bias = data + 3 * count,
                             .count = count};
}

static lsi_plane_affine affine_of(const lsi_planes *s,
                                  const lsi_plane_stats *stats)
{
    return (lsi_plane_affine){.mean = stats->mean,
                              .scale = stats->scale,
                              .bias = stats->bias,
                              .step =
                                  stats->count > s->channels ? s->channels : 0};
}

bool lsi_image_norm_check(ls_tape *tape, const ls_function *function,
                          ls_tensor *x, ls_tensor *residual)
{
    ls_tensor *const in[] = {x, residual};
    if (!lsi_op_begin_mixed(tape, function, in, residual != NULL ? 2 : 1))
        return false;
    if (x->ndim < 2)
        return ls_tape_fail(
                   tape, LS_ERR_SHAPE,
                   "%s: got shape %s, expected shape (N, C, ...) for x",
                   function->name, lsi_shape_of(x).text) != NULL;
    return residual == NULL || lsi_op_check_equal(tape, function, x, residual);
}

bool lsi_image_norm_open(ls_tape *tape, ls_tensor *x, ls_tensor *residual,
                         bool relu, int64_t vectors, lsi_image_norm *out)
{
    const int64_t shape[] = {4, vectors, x->shape[1]};
    *out = (lsi_image_norm){.relu = relu, .x = lsi_op_dense(tape, x)};
    if (out->x == NULL)
        return false;
    out->channels = lsi_planes_of(lsi_tensor_layout(out->x), x->ndim, x->shape);
    out->saved = lsi_op_temp(tape, LS_F32, 3, shape);
    out->y = lsi_op_like(tape, out->x);
    if (residual != NULL)
        out->residual = lsi_op_dense(tape, residual);
    if (ls_tape_status(tape) != LS_OK)
        return false;
    out->stats = stats_of(out->saved);
    if (residual == NULL)
        return true;
    const ls_status status = lsi_tape_in_layout(
        tape, out->residual, lsi_tensor_layout(out->x), &out->residual);
    return status == LS_OK || lsi_tape_stop(tape, status) != NULL;
}

void lsi_image_norm_apply(const lsi_image_norm *n)
{
    const lsi_plane_affine affine = affine_of(&n->channels, &n->stats);
    lsi_planes_affine(
        &n->channels, &affine, lsi_op_mixed(n->y), lsi_op_mixed(n->x),
        n->residual != NULL ? lsi_op_mixed(n->residual) : LSI_NO_ARRAY,
        n->relu);
}

/* ---- backward ------------------------------------------------------------ */

/*
 * The target of dz if it differs from dy: dy's memory or the residual's
 * gradient.
 */
static ls_status open_dz(ls_tape *tape, ls_node *node, bool relu,
                         const ls_tensor *dy, lsi_image_norm_grad *g)
{
    ls_tensor *temp = NULL;
    LS_TRY(lsi_target_open_over(tape, node, LSI_NORM_RESIDUAL, g->layout,
                                &g->residual));
    if (g->residual.grad != NULL) {
        g->dz = lsi_op_mixed(g->residual.out);
        return LS_OK;
    }
    if (!relu)
        return LS_OK;
    LS_TRY(
        lsi_tape_temp(tape, dy->dtype, dy->ndim, dy->shape, g->layout, &temp));
    g->dz = lsi_op_mixed(temp);
    return LS_OK;
}

ls_status lsi_image_norm_sums(ls_tape *tape, ls_node *node, bool relu,
                              lsi_image_norm_grad *g)
{
    const ls_tensor *x = ls_node_saved(node, LSI_NORM_SAVED_X);
    const bool residual = ls_node_input(node, LSI_NORM_RESIDUAL) != NULL;
    ls_tensor *dy = NULL, *y = ls_node_output(node, 0);
    *g = (lsi_image_norm_grad){
        .channels = lsi_planes_of(lsi_tensor_layout(x), x->ndim, x->shape),
        .stats = stats_of(ls_node_saved(node, LSI_NORM_SAVED_STATS)),
        .x = lsi_op_mixed(x),
        .layout = lsi_tensor_layout(x),
        .dz = LSI_NO_ARRAY,
        .gated_by_x = relu && !residual};
    const size_t sums = g->channels.images * g->channels.channels;
    LS_TRY(lsi_node_grad_output_in(tape, node, 0, g->layout, &dy, NULL));
    g->dy = lsi_op_mixed(dy);
    if (residual) {
        LS_TRY(open_dz(tape, node, relu, dy, g));
        LS_TRY(lsi_tape_in_layout(tape, y, g->layout, &y));
    }
    g->sum_dz = ls_tape_scratch(tape, 2 * sums * sizeof(float));
    LS_TRY(ls_tape_status(tape));
    g->sum_dz_d = g->sum_dz + sums;
    const lsi_plane_affine affine = affine_of(&g->channels, &g->stats);
    lsi_plane_sums s = {.dz = g->dz,
                        .dy = g->dy,
                        .x = g->x,
                        .y = lsi_op_mixed(y),
                        .gate = residual ? LSI_GATE_BY_Y : LSI_GATE_BY_X,
                        .sum_dz = g->sum_dz,
                        .sum_dz_d = g->sum_dz_d};
    if (!relu)
        s.gate = LSI_GATE_NONE;
    if (!relu && s.dz.data == s.dy.data)
        s.dz = LSI_NO_ARRAY;
    lsi_planes_sums(&g->channels, &affine, &s);
    return LS_OK;
}

ls_status lsi_image_norm_finish(ls_tape *tape, ls_node *node,
                                lsi_image_norm_grad *g, const float *p,
                                const float *q)
{
    lsi_target dx = {0};
    const lsi_plane_affine affine = affine_of(&g->channels, &g->stats);
    LS_TRY(lsi_target_open_over(tape, node, LSI_NORM_X, g->layout, &dx));
    if (dx.grad != NULL) {
        const lsi_plane_dx s = {.dx = lsi_op_mixed(dx.out),
                                .dy = g->dz.data != NULL ? g->dz : g->dy,
                                .x = g->x,
                                .gated_by_x = g->gated_by_x,
                                .p = p,
                                .q = q};
        lsi_planes_dx(&g->channels, &affine, &s);
        LS_TRY(lsi_target_close(&dx));
    }
    return g->residual.grad != NULL ? lsi_target_close(&g->residual) : LS_OK;
}

ls_status lsi_image_norm_give(ls_tape *tape, ls_node *node, int index,
                              const float *sum, size_t n)
{
    bool accumulate = false;
    const ls_tensor *grad = ls_node_grad_input(tape, node, index, &accumulate);
    if (grad == NULL)
        return ls_tape_status(tape);
    float *out = lsi_op_floats(grad);
    if (accumulate)
        lsi_array_add(out, out, sum, n);
    else
        lsi_array_copy(out, sum, LS_F32, n);
    return LS_OK;
}
