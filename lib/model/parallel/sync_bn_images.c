/*
 * Synchronised batch normalisation of images: the arithmetic of batch_norm
 * (model/autograd/ops/image_norm.h), and the exchange of sync_bn.h.
 */
#include <string.h>

#include "array/compute/array.h"
#include "base/error.h"
#include "comm/api/request.h"
#include "model/autograd/ops/image_norm.h"
#include "model/parallel/sync_bn.h"

/* ---- backward ------------------------------------------------------------ */

/* inv_std, padded to `stride` elements. */
static float *padded(ls_tape *tape, const ls_sync_bn *bn, const float *inv_std)
{
    float *out = ls_tape_scratch(tape, bn->stride * sizeof(float));
    for (size_t i = 0; out != NULL && i < bn->stride; i++)
        out[i] = i < (size_t)bn->features ? inv_std[i] : 1.0F;
    return out;
}

/* The images of a slice. */
static lsi_planes slice_of(const lsi_planes *all, int slices, int slice,
                           size_t *begin)
{
    lsi_planes part = *all;
    const lsi_range images =
        lsi_slice_rows((int64_t)all->images, slices, slice);
    part.images = lsi_range_size(images);
    *begin = images.begin;
    return part;
}

static ls_status sum_images(ls_tape *tape, ls_node *node,
                            lsi_image_norm_grad *g, float **inv_std)
{
    const lsi_bn_node *s = ls_node_state(node);
    const ls_sync_bn *bn = s->bn;
    LS_TRY(lsi_image_norm_sums(tape, node, s->relu, g));
    *inv_std = padded(tape, bn, g->stats.inv_std);
    LS_TRY(ls_tape_status(tape));
    for (int j = 0; j < bn->slices; j++) {
        size_t begin;
        const lsi_planes part = slice_of(&g->channels, bn->slices, j, &begin);
        const size_t first = begin * part.channels;
        float *const dz = lsi_bn_sums_of(bn, j), *dz_xhat = dz + bn->stride;
        lsi_planes_fold(&part, g->sum_dz + first, dz);
        lsi_planes_fold(&part, g->sum_dz_d + first, dz_xhat);
        lsi_array_mul(dz_xhat, dz_xhat, *inv_std, part.channels);
        LS_TRY(lsi_bn_give_sums(tape, node, j, *inv_std));
    }
    return LS_OK;
}

static ls_status backward(ls_tape *tape, ls_node *node)
{
    const lsi_bn_node *s = ls_node_state(node);
    const ls_sync_bn *bn = s->bn;
    lsi_image_norm_grad g;
    float *inv_std;
    ls_status status = sum_images(tape, node, &g, &inv_std);
    float *p = ls_tape_scratch(tape, 2 * bn->stride * sizeof(float));
    if (status == LS_OK)
        status = ls_tape_status(tape);
    if (status != LS_OK)
        return lsi_refuse_planned(bn->reduce, status);
    LS_TRY(lsi_bn_exchange_sums(s, inv_std));
    float *const q = p + bn->stride;
    for (size_t c = 0; c < g.channels.channels; c++) {
        p[c] = -g.stats.scale[c] * inv_std[c] * bn->sums[bn->stride + c];
        q[c] = -g.stats.scale[c] * bn->sums[c];
    }
    return lsi_image_norm_finish(tape, node, &g, p, q);
}

static const ls_function function = {.name = "sync_batch_norm",
                                     .backward = backward,
                                     .state_bytes = sizeof(lsi_bn_node)};

/* ---- forward ------------------------------------------------------------- */

/* Measures this rank's images, slice by slice. */
static ls_status measure(ls_sync_bn *bn, ls_tape *tape, const lsi_image_norm *n)
{
    const size_t image = n->channels.channels * n->channels.pixels;
    const size_t each = n->channels.images * n->channels.channels;
    const ls_dtype dtype = n->x->dtype;
    float *means = ls_tape_scratch(tape, 2 * each * sizeof(float));
    LS_TRY(ls_tape_status(tape));
    for (int j = 0; j < bn->slices; j++) {
        size_t begin;
        const lsi_planes part = slice_of(&n->channels, bn->slices, j, &begin);
        char *x =
            (char *)lsi_tensor_raw(n->x) + begin * image * ls_dtype_size(dtype);
        const lsi_bn_slot own = lsi_bn_own_slot(bn, j);
        lsi_bn_set_rows(own, part.images * part.pixels);
        lsi_planes_moments(&part, (lsi_mixed){x, dtype}, means, means + each);
        lsi_planes_merge(&part, means, means + each, own.mean, own.spread);
    }
    return LS_OK;
}

/* One forward pass. */
typedef struct forward_pass {
    ls_tensor *x, *residual;
    bool relu;
    lsi_image_norm norm;
    lsi_bn_stats stats;
    ls_node *node; /* NULL: no gradient is needed */
} forward_pass;

/* Records the node before the exchange; see sync_bn.c. */
static bool prepare(ls_sync_bn *bn, ls_tape *tape, forward_pass *pass)
{
    const int nodes = tape->n_nodes;
    const lsi_bn_node s = {.bn = bn, .relu = pass->relu};
    lsi_image_norm *n = &pass->norm;
    if (!lsi_image_norm_check(tape, &function, pass->x, pass->residual) ||
        !lsi_image_norm_open(tape, pass->x, pass->residual, pass->relu, 1, n))
        return false;
    float *stats = ls_tape_scratch(tape, 2 * bn->stride * sizeof(float));
    if (stats == NULL)
        return false;
    pass->stats = (lsi_bn_stats){
        .mean = stats, .inv_std = stats + bn->stride, .variance = bn->variance};
    const ls_status status = measure(bn, tape, n);
    if (status != LS_OK)
        return lsi_tape_stop(tape, status) != NULL;
    ls_tape_record(tape, &function, &s,
                   (ls_tensor *[]){pass->x, bn->args.weight, bn->args.bias,
                                   pass->residual},
                   LSI_NORM_INPUTS, &n->y, 1, (ls_tensor *[]){n->x, n->saved},
                   LSI_NORM_SAVED);
    pass->node = tape->n_nodes > nodes ? &tape->nodes[nodes] : NULL;
    return ls_tape_status(tape) == LS_OK;
}

static ls_tensor *forward(ls_sync_bn *bn, ls_tape *tape, forward_pass *pass)
{
    if (!prepare(bn, tape, pass))
        return lsi_bn_refuse(bn, tape);
    const ls_status status = lsi_bn_gather(bn, &pass->stats);
    if (status != LS_OK)
        return ls_tape_fail(tape, status, "%s", ls_last_error());
    if (pass->node != NULL) {
        lsi_bn_node *s = pass->node->state;
        s->rows = pass->stats.rows;
        pass->node->abandon = lsi_bn_abandon;
    }
    lsi_bn_track(bn, &pass->stats);
    const ls_tensor *weight = bn->args.weight, *bias = bn->args.bias;
    const lsi_plane_stats *to = &pass->norm.stats;
    memcpy(to->mean, pass->stats.mean, to->count * sizeof(float));
    memcpy(to->inv_std, pass->stats.inv_std, to->count * sizeof(float));
    lsi_plane_stats_scale(to, pass->norm.channels.channels,
                          weight != NULL ? lsi_op_floats(weight) : NULL,
                          bias != NULL ? lsi_op_floats(bias) : NULL);
    lsi_image_norm_apply(&pass->norm);
    return pass->norm.y;
}

/* The statistics and tensors in a new layout are needed after the record. */
ls_tensor *lsi_bn_images(ls_sync_bn *bn, ls_tape *tape, ls_tensor *x,
                         ls_tensor *residual)
{
    forward_pass pass = {.x = x, .residual = residual, .relu = bn->args.relu};
    lsi_tape_hold_temps(tape, true);
    ls_tensor *const y = forward(bn, tape, &pass);
    lsi_tape_hold_temps(tape, false);
    return y;
}
