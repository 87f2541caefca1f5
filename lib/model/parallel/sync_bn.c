/*
 * Synchronised batch normalisation: the layer and its operation. The chosen
 * implementation defines the data that travel between ranks; see sync_bn.h.
 */
#include "model/parallel/sync_bn.h"

#include <assert.h>

#include "array/compute/array.h"
#include "array/compute/batch_norm.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/structs.h"
#include "comm/api/request.h"
#include "comm/core/agree.h"
#include "model/autograd/ops/image_norm.h"
#include "model/autograd/params.h"

/* ---- the layer ------------------------------------------------------------
 */

/* Zeros in memory that the node's ranks share. */
static ls_status shared_floats(ls_group *group, size_t count, float **out)
{
    void *data = NULL;
    LS_TRY(ls_shared_alloc(group, count * sizeof(float), &data));
    *out = data;
    return LS_OK;
}

static ls_status private_floats(size_t count, float **out)
{
    void *data;
    LS_TRY(lsi_alloc_zeroed(&data, count * sizeof(float), LS_MEMORY_COMM,
                            "batch normalisation"));
    *out = data;
    return LS_OK;
}

static ls_status alloc_private(ls_sync_bn *bn)
{
    const size_t slot = lsi_bn_slot_floats(bn);
    const size_t slices = (size_t)bn->slices;
    LS_TRY(private_floats(bn->stride, &bn->variance));
    LS_TRY(private_floats((size_t)lsi_bn_parts(bn) * slot, &bn->slots));
    return private_floats((slices - 1) * 2 * bn->stride, &bn->slice_sums);
}

static ls_status plan_reduction(ls_sync_bn *bn)
{
    const size_t slot = lsi_bn_slot_floats(bn);
    const size_t slices = (size_t)bn->slices;
    LS_TRY(shared_floats(bn->group, slices * slot, &bn->own));
    LS_TRY(shared_floats(bn->group, 2 * bn->stride, &bn->sums));
    return ls_all_reduce_plan(bn->group, bn->sums, bn->sums, 2 * bn->stride,
                              LS_F32, LS_REDUCE_SUM, &bn->reduce);
}

/* The running statistics are those of all rows, so copies can be compared. */
static void mark_equal(const ls_sync_bn *bn, const ls_params *params)
{
    for (size_t i = 0; i < params->buffers.count; i++) {
        lsi_param *const buffer = params->buffers.items[i];
        if (buffer->tensor == bn->args.running_mean ||
            buffer->tensor == bn->args.running_var)
            buffer->equal_on = bn->group;
    }
}

static ls_status make(ls_sync_bn *bn, ls_params *params, const char *name,
                      bool affine)
{
    ls_batch_norm_layer layer;
    LS_TRY(ls_batch_norm_layer_init(&layer, params, name, bn->features,
                                    affine ? LS_LAYER_DEFAULT
                                           : LS_LAYER_NO_AFFINE));
    const double eps = bn->args.eps, momentum = bn->args.momentum;
    const bool relu = bn->args.relu;
    bn->args = layer.args;
    bn->args.eps = eps;
    bn->args.momentum = momentum;
    bn->args.relu = relu;
    mark_equal(bn, params);
    return alloc_private(bn);
}

static ls_status read_options(const ls_sync_bn_options *given,
                              ls_sync_bn_options *out)
{
    static const ls_sync_bn_options usual = LS_SYNC_BN_OPTIONS_INIT;
    LS_TRY(LSI_STRUCT_READ(out, given != NULL ? given : &usual,
                           ls_sync_bn_options, momentum));
    if (out->eps == 0)
        out->eps = usual.eps;
    return LS_OK;
}

static ls_status check_arguments(int64_t features,
                                 const ls_sync_bn_options *options)
{
    if (features < 1)
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "batch normalisation: features is %lld; it must be at least 1",
            (long long)features);
    if (options->kind != LS_SYNC_BN_FUSED &&
        options->kind != LS_SYNC_BN_GATHERED)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "unknown kind %d of synchronised batch normalisation",
                        (int)options->kind);
    if (!(options->eps >= 0) || !(options->momentum >= 0) ||
        options->momentum > 1)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "batch normalisation: eps is %g and momentum is %g; "
                        "eps must be at least 0, and momentum from 0 to 1",
                        options->eps, options->momentum);
    return LS_OK;
}

static ls_status describe(ls_sync_bn **out, ls_group *group,
                          const ls_params *params, int64_t features,
                          const ls_sync_bn_options *options)
{
    ls_sync_bn *bn;
    LS_TRY(lsi_alloc_zeroed(&bn, sizeof(ls_sync_bn), LS_MEMORY_OTHER,
                            "batch normalisation"));
    bn->exchange =
        options->kind == LS_SYNC_BN_FUSED ? &lsi_bn_fused : &lsi_bn_gathered;
    bn->group = group;
    bn->features = features;
    bn->slices = params->storage.slices;
    bn->stride =
        ((size_t)features + LSI_BN_BLOCK - 1) / LSI_BN_BLOCK * LSI_BN_BLOCK;
    bn->args.eps = options->eps;
    bn->args.momentum = options->momentum;
    bn->args.relu = options->relu;
    *out = bn;
    return LS_OK;
}

ls_status ls_sync_bn_new(ls_sync_bn **out, ls_group *group, ls_params *params,
                         const char *name, int64_t features,
                         const ls_sync_bn_options *options)
{
    LS_NEED(out, group, params, name);
    ls_sync_bn *bn = NULL;
    ls_sync_bn_options own;
    ls_status status = read_options(options, &own);
    if (status == LS_OK)
        status = check_arguments(features, &own);
    if (status == LS_OK)
        status = describe(&bn, group, params, features, &own);
    if (status == LS_OK)
        status = make(bn, params, name, !own.no_affine);
    status = lsi_agree_to_plan(group, status);
    if (status == LS_OK) {
        assert(bn != NULL); /* or this rank would not have agreed */
        status = plan_reduction(bn);
    }
    if (status != LS_OK) {
        ls_sync_bn_free(&bn);
        return status;
    }
    *out = bn;
    return LS_OK;
}

static void release_shared(ls_group *group, float *data)
{
    void *block = data;
    if (block != NULL)
        ls_ignore(ls_shared_free(group, &block));
}

void ls_sync_bn_free(ls_sync_bn **bn)
{
    if (bn == NULL || *bn == NULL)
        return;
    ls_request_free(&(*bn)->reduce);
    release_shared((*bn)->group, (*bn)->sums);
    release_shared((*bn)->group, (*bn)->own);
    lsi_free((*bn)->slice_sums);
    lsi_free((*bn)->slots);
    lsi_free((*bn)->variance);
    lsi_free(*bn);
    *bn = NULL;
}

/* ---- backward --------------------------------------------------------------
 */

enum { INPUT_X, INPUT_WEIGHT, INPUT_BIAS, N_INPUTS };
enum { SAVED_X, SAVED_STATS, N_SAVED };

/* Gradients of weight and bias are of this rank's rows only. */
static ls_status parameter_gradient(ls_tape *tape, ls_node *node, int input,
                                    int slice, const float *sums)
{
    lsi_slice_grad grad;
    LS_TRY(lsi_node_grad_slice(tape, node, input, slice, &grad));
    if (grad.data == NULL)
        return LS_OK;
    const size_t n = (size_t)ls_tensor_count(ls_node_input(node, input));
    if (grad.accumulate)
        lsi_array_add(grad.data, grad.data, sums, n);
    else
        lsi_array_copy(grad.data, sums, LS_F32, n);
    return LS_OK;
}

float *lsi_bn_sums_of(const ls_sync_bn *bn, int slice)
{
    assert(slice >= 0 && slice < bn->slices);
    return slice == 0 ? bn->sums
                      : bn->slice_sums + (size_t)(slice - 1) * 2 * bn->stride;
}

ls_status lsi_bn_give_sums(ls_tape *tape, ls_node *node, int slice,
                           const float *inv_std)
{
    const lsi_bn_node *const s = ls_node_state(node);
    const ls_sync_bn *const bn = s->bn;
    float *const sums = lsi_bn_sums_of(bn, slice);
    float *const dy_xhat = sums + bn->stride;
    LS_TRY(parameter_gradient(tape, node, INPUT_BIAS, slice, sums));
    LS_TRY(parameter_gradient(tape, node, INPUT_WEIGHT, slice, dy_xhat));
    if (bn->exchange->pack_sums != NULL)
        bn->exchange->pack_sums(bn, dy_xhat, inv_std);
    return LS_OK;
}

/* Measures a slice: its parameters' gradients, and what the ranks exchange. */
static ls_status sum_slice(ls_tape *tape, ls_node *node, int slice,
                           const float *dy, const float *x)
{
    const lsi_bn_node *const s = ls_node_state(node);
    const ls_sync_bn *const bn = s->bn;
    const float *const mean = lsi_tensor_raw(ls_node_saved(node, SAVED_STATS));
    const float *const inv_std = mean + bn->stride;
    const int64_t batch = ls_tensor_shape(ls_node_saved(node, SAVED_X))[0];
    const lsi_range rows = lsi_slice_rows(batch, bn->slices, slice);
    const size_t cols = (size_t)bn->features;
    float *const sums = lsi_bn_sums_of(bn, slice);
    const lsi_batch_norm part = {.x = x + rows.begin * cols,
                                 .mean = mean,
                                 .inv_std = inv_std,
                                 .rows = lsi_range_size(rows),
                                 .cols = cols};
    lsi_batch_norm_sums(&part, dy + rows.begin * cols, sums, sums + bn->stride);
    return lsi_bn_give_sums(tape, node, slice, inv_std);
}

ls_status lsi_bn_exchange_sums(const lsi_bn_node *s, const float *inv_std)
{
    const ls_sync_bn *const bn = s->bn;
    float *const dy_xhat = bn->sums + bn->stride;
    float *slices[LSI_MAX_SLICES];
    for (int j = 0; j < bn->slices; j++)
        slices[j] = lsi_bn_sums_of(bn, j);
    if (bn->slices > 1)
        lsi_array_fold(bn->sums, slices, bn->slices, 2 * bn->stride);
    LS_TRY(ls_start(bn->reduce));
    LS_TRY(ls_wait(bn->reduce));
    if (bn->exchange->unpack_sums != NULL)
        bn->exchange->unpack_sums(bn, dy_xhat, inv_std);
    const double per_row = s->rows > 0 ? 1.0 / s->rows : 0.0;
    lsi_array_scale(bn->sums, bn->sums, (float)per_row, 2 * bn->stride);
    return LS_OK;
}

/* Measures all slices; *dy is the gradient of the output. */
static ls_status sum_slices(ls_tape *tape, ls_node *node, ls_tensor **dy)
{
    const lsi_bn_node *const s = ls_node_state(node);
    const ls_tensor *const x = ls_node_saved(node, SAVED_X);
    *dy = ls_node_grad_output(tape, node, 0);
    if (*dy == NULL)
        return ls_tape_status(tape);
    for (int j = 0; j < s->bn->slices; j++)
        LS_TRY(
            sum_slice(tape, node, j, lsi_tensor_raw(*dy), lsi_tensor_raw(x)));
    return LS_OK;
}

static ls_status backward(ls_tape *tape, ls_node *node)
{
    const lsi_bn_node *const s = ls_node_state(node);
    const ls_sync_bn *const bn = s->bn;
    const ls_tensor *const x = ls_node_saved(node, SAVED_X);
    const float *const mean = lsi_tensor_raw(ls_node_saved(node, SAVED_STATS));
    const float *const inv_std = mean + bn->stride;
    float *const dy_xhat = bn->sums + bn->stride;

    ls_tensor *dy;
    const ls_status status = sum_slices(tape, node, &dy);
    if (status != LS_OK)
        return lsi_refuse_planned(bn->reduce, status);
    LS_TRY(lsi_bn_exchange_sums(s, inv_std));

    bool accumulate;
    ls_tensor *const dx = ls_node_grad_input(tape, node, INPUT_X, &accumulate);
    if (dx == NULL)
        return LS_OK;
    const lsi_batch_norm whole = {
        .x = lsi_tensor_raw(x),
        .mean = mean,
        .inv_std = inv_std,
        .weight =
            bn->args.weight != NULL ? lsi_tensor_raw(bn->args.weight) : NULL,
        .rows = (size_t)ls_tensor_shape(x)[0],
        .cols = (size_t)bn->features};
    lsi_batch_norm_backward(&whole, lsi_tensor_raw(dy), bn->sums, dy_xhat,
                            lsi_tensor_raw(dx), accumulate);
    return LS_OK;
}

void lsi_bn_abandon(const ls_node *node, ls_status status)
{
    const lsi_bn_node *const s = ls_node_state(node);
    (void)lsi_refuse_planned(s->bn->reduce, status);
}

static const ls_function function = {.name = "sync_batch_norm",
                                     .backward = backward,
                                     .state_bytes = sizeof(lsi_bn_node)};

/* ---- forward ---------------------------------------------------------------
 */

ls_status lsi_bn_gather(ls_sync_bn *bn, lsi_bn_stats *out)
{
    for (int j = 0; j < bn->slices; j++)
        if (bn->exchange->pack != NULL)
            bn->exchange->pack(bn, lsi_bn_own_slot(bn, j));
    LS_TRY(ls_all_gather(bn->group, bn->own, bn->slots,
                         (size_t)bn->slices * lsi_bn_slot_floats(bn), LS_F32));
    bn->exchange->combine(bn, out);
    return LS_OK;
}

static ls_status gather_statistics(ls_sync_bn *bn, const float *x, size_t rows,
                                   lsi_bn_stats *out)
{
    const size_t cols = (size_t)bn->features;
    for (int j = 0; j < bn->slices; j++) {
        const lsi_bn_slot own = lsi_bn_own_slot(bn, j);
        const lsi_range part = lsi_slice_rows((int64_t)rows, bn->slices, j);
        lsi_bn_set_rows(own, lsi_range_size(part));
        lsi_batch_norm_moments(x + part.begin * cols, lsi_range_size(part),
                               cols, own.mean, own.spread);
    }
    return lsi_bn_gather(bn, out);
}

/* The variance of the batch is the biased one. */
void lsi_bn_track(const ls_sync_bn *bn, const lsi_bn_stats *stats)
{
    const double rows = stats->rows;
    const lsi_running running = {lsi_tensor_raw(bn->args.running_mean),
                                 lsi_tensor_raw(bn->args.running_var),
                                 bn->args.momentum};
    lsi_batch_norm_track(&running, stats->mean, stats->variance,
                         (rows - 1.0) / rows, rows, (size_t)bn->features);
}

/* x itself or, if it has gaps, a dense copy. */
static ls_tensor *dense(ls_tape *tape, ls_tensor *x)
{
    if (ls_tensor_is_contiguous(x))
        return x;
    ls_tensor *const copy = ls_tape_output(tape, LS_F32, 2, ls_tensor_shape(x));
    if (copy == NULL)
        return NULL;
    const ls_status status = ls_tensor_copy(copy, x);
    return status == LS_OK ? copy
                           : ls_tape_fail(tape, status, "%s", ls_last_error());
}

/* Tensors and node that a rank needs for its part. */
typedef struct prepared {
    ls_tensor *input, *y, *saved;
    ls_node *node; /* NULL: no gradient is needed */
} prepared;

/*
 * Records the node before the exchange. From then on all ranks have a node
 * whose backward they enter or abandon, or none has.
 */
static bool prepare(ls_sync_bn *bn, ls_tape *tape, ls_tensor *x, prepared *out)
{
    const int64_t stats_shape[2] = {2, (int64_t)bn->stride};
    const int nodes = tape->n_nodes;
    const lsi_bn_node s = {.bn = bn};
    out->input = dense(tape, x);
    out->y = ls_tape_output(tape, LS_F32, 2, ls_tensor_shape(x));
    out->saved = ls_tape_output(tape, LS_F32, 2, stats_shape);
    if (ls_tape_status(tape) != LS_OK)
        return false;
    ls_tape_record(tape, &function, &s,
                   (ls_tensor *[N_INPUTS]){x, bn->args.weight, bn->args.bias},
                   N_INPUTS, &out->y, 1,
                   (ls_tensor *[N_SAVED]){out->input, out->saved}, N_SAVED);
    out->node = tape->n_nodes > nodes ? &tape->nodes[nodes] : NULL;
    return ls_tape_status(tape) == LS_OK;
}

static ls_tensor *forward_training(ls_sync_bn *bn, ls_tape *tape,
                                   const prepared *p)
{
    const float *const x = lsi_tensor_raw(p->input);
    const size_t rows = (size_t)ls_tensor_shape(p->input)[0];
    float *const mean = lsi_tensor_raw(p->saved);
    lsi_bn_stats stats = {
        .mean = mean, .inv_std = mean + bn->stride, .variance = bn->variance};
    const ls_status status = gather_statistics(bn, x, rows, &stats);
    if (status != LS_OK)
        return ls_tape_fail(tape, status, "%s", ls_last_error());
    if (p->node != NULL) {
        lsi_bn_node *const s = p->node->state;
        s->rows = stats.rows;
        p->node->abandon = lsi_bn_abandon;
    }
    lsi_bn_track(bn, &stats);

    const ls_tensor *const weight = bn->args.weight, *const bias =
                                                         bn->args.bias;
    const lsi_batch_norm norm = {
        .x = x,
        .mean = stats.mean,
        .inv_std = stats.inv_std,
        .weight = weight != NULL ? lsi_tensor_raw(weight) : NULL,
        .bias = bias != NULL ? lsi_tensor_raw(bias) : NULL,
        .rows = rows,
        .cols = (size_t)bn->features};
    lsi_batch_norm_forward(&norm, lsi_tensor_raw(p->y));
    return p->y;
}

/* The input of the layer; NULL if the tape has failed. */
static ls_tensor *input_of(const ls_sync_bn *bn, ls_tape *tape, ls_tensor *x)
{
    if (!lsi_tape_has(tape, x, "ls_sync_bn_forward", "x") ||
        ls_tape_status(tape) != LS_OK)
        return NULL;
    const ls_tensor *const used[] = {x, bn->args.weight, bn->args.bias,
                                     bn->args.running_mean,
                                     bn->args.running_var};
    ls_status status = LS_OK;
    for (size_t i = 0; i < sizeof(used) / sizeof(used[0]); i++) {
        if (status == LS_OK && used[i] != NULL)
            status = lsi_tensor_check_input(used[i], "sync_batch_norm");
    }
    if (status != LS_OK)
        return lsi_tape_stop(tape, status);
    const bool matrix = ls_tensor_ndim(x) == 2;
    if (ls_tape_autocast(tape) != LS_F32 && matrix)
        x = ls_cast(tape, x, LS_F32);
    if (x == NULL)
        return NULL;
    if (matrix && ls_tensor_dtype(x) != LS_F32)
        return ls_tape_fail(tape, LS_ERR_DTYPE,
                            "sync_batch_norm: x is %s; it must be f32",
                            ls_dtype_name(ls_tensor_dtype(x)));
    if (ls_tensor_ndim(x) < 2 || ls_tensor_shape(x)[1] != bn->features)
        return ls_tape_fail(tape, LS_ERR_SHAPE,
                            "sync_batch_norm: x has shape %s; it must be "
                            "(N, %lld) or (N, %lld, ...)",
                            lsi_shape_of(x).text, (long long)bn->features,
                            (long long)bn->features);
    return x;
}

ls_tensor *lsi_bn_refuse(const ls_sync_bn *bn, const ls_tape *tape)
{
    const lsi_call call = {.operation = LSI_OP_ALL_GATHER};
    (void)lsi_fail(tape->status, "%s", tape->message);
    (void)lsi_refuse(bn->group, &call, tape->status);
    return NULL;
}

/* Training over the rows of all ranks. */
static ls_tensor *train_matrix(ls_sync_bn *bn, ls_tape *tape, ls_tensor *x,
                               ls_tensor *residual)
{
    prepared ready;
    if (!lsi_image_norm_check(tape, &function, x, residual) ||
        !prepare(bn, tape, x, &ready))
        return lsi_bn_refuse(bn, tape);
    ls_tensor *y = forward_training(bn, tape, &ready);
    if (residual != NULL)
        y = ls_add(tape, y, residual);
    return bn->args.relu ? ls_relu(tape, y) : y;
}

ls_tensor *ls_sync_bn_forward(ls_sync_bn *bn, ls_tape *tape, ls_tensor *x,
                              ls_tensor *residual)
{
    if (!lsi_tape_has(tape, bn, __func__, "bn"))
        return NULL;
    ls_tensor *const input = input_of(bn, tape, x);
    if (!ls_tape_is_training(tape)) {
        ls_batch_norm_args args = bn->args;
        args.residual = residual;
        return ls_batch_norm(tape, input, &args);
    }
    if (input == NULL)
        return lsi_bn_refuse(bn, tape);
    return ls_tensor_ndim(input) == 2
               ? train_matrix(bn, tape, input, residual)
               : lsi_bn_images(bn, tape, input, residual);
}
