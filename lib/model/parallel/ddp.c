/*
 * Data parallelism over a parameter set.
 *
 * Backward is seeded with the weight of the rank's samples, so gradients are
 * sums over samples; the weights are summed over micro-steps and then, together
 * with the gradients, over ranks. Sum divided by weight is the mean over all
 * samples, however unevenly they are spread.
 */
#include "model/parallel/ddp.h"

#include <assert.h>
#include <math.h>

#include "array/compute/threads.h"
#include "base/error.h"
#include "comm/core/agree.h"
#include "model/autograd/tape.h"
#include "model/parallel/ddp_state.h"
#include "model/parallel/levels.h"
#include "observe/live.h"
#include "observe/spans.h"

/* Floats that a thread steps and then sends on while its cache holds them. */
enum { PIECE = 1 << 16 };

/* ---- the same start on all ranks ----------------------------------------- */

static ls_status broadcast_tensor(ls_group *group, ls_tensor *tensor)
{
    return ls_broadcast(group, lsi_tensor_raw(tensor),
                        (size_t)ls_tensor_count(tensor),
                        ls_tensor_dtype(tensor), 0);
}

static ls_status broadcast_parameters(const ls_ddp *ddp)
{
    size_t count;
    float *const flat = ls_params_flat(ddp->params, &count);
    /* A single copy of all ranks need not be sent. */
    if (flat != NULL &&
        (!ddp->params->sharing.one_copy || !lsi_ddp_on_one_node(ddp)))
        LS_TRY(ls_broadcast(ddp->group, flat, count, LS_F32, 0));
    for (size_t i = 0; i < ls_params_count(ddp->params); i++) {
        const bool trained = ls_params_is_trainable(ddp->params, i);
        if ((trained && flat != NULL) ||
            lsi_param_is_divided(ddp->params->params.items[i]))
            continue; /* sent above; or each rank has its part already */
        LS_TRY(broadcast_tensor(ddp->group, ls_params_get(ddp->params, i)));
    }
    ls_params_changed(ddp->params);
    return LS_OK;
}

ls_status lsi_ddp_broadcast_buffers(ls_ddp *ddp)
{
    for (size_t i = 0; i < ls_params_buffer_count(ddp->params); i++)
        LS_TRY(broadcast_tensor(ddp->group, ls_params_buffer(ddp->params, i)));
    return LS_OK;
}

/*
 * Whether no rank has looked at its weights. Then rank 0's seed stands for its
 * weights, and each rank computes those that it owns.
 */
static ls_status share_seed(const ls_ddp *ddp, bool *shared)
{
    lsi_params_storage *const storage = &ddp->params->storage;
    int32_t unfilled = atomic_load(&storage->unfilled);
    *shared = false;
    if (ddp->strategy->share < LSI_SHARE_WEIGHTS)
        return LS_OK;
    LS_TRY(ls_all_reduce(ddp->channel, &unfilled, &unfilled, 1, LS_I32,
                         LS_REDUCE_MIN));
    *shared = unfilled != 0;
    return *shared ? ls_broadcast(ddp->channel, &storage->seed,
                                  sizeof(storage->seed), LS_U8, 0)
                   : LS_OK;
}

/* All ranks have rank 0's weights, or will compute them. */
static ls_status start_alike(ls_ddp *ddp)
{
    bool shared;
    LS_TRY(share_seed(ddp, &shared));
    if (shared)
        return LS_OK;
    LS_TRY(lsi_agree_to_plan(ddp->channel, lsi_params_fill(ddp->params)));
    LS_TRY(broadcast_parameters(ddp));
    return lsi_ddp_broadcast_buffers(ddp);
}

/* ---- calls of the parameter set ------------------------------------------ */

static ls_status on_ready(void *context, size_t index)
{
    ls_ddp *const ddp = context;
    LS_TRY(lsi_params_count_grad(ddp->params, index));
    if (!ddp->syncing)
        return LS_OK;
    lsi_params_fold(ddp->params, index);
    if (ddp->local_flags != NULL)
        lsi_ddp_write_flags(ddp); /* as late as possible */
    return lsi_reducer_ready(ddp->reducer, ddp->span_of[index]);
}

static void on_forgotten(void *context)
{
    lsi_ddp_forget(context);
}

static ls_status check_spoiled(const ls_ddp *ddp)
{
    return ddp->spoiled
               ? lsi_fail(
                     LS_ERR_STATE,
                     "the last backward failed, so the gradients are "
                     "incomplete: call ls_params_zero_grad and repeat the step")
               : LS_OK;
}

static ls_status before_step(void *context)
{
    ls_ddp *const ddp = context;
    ls_status status = check_spoiled(ddp);
    if (status == LS_OK && ddp->begun)
        status = lsi_fail(LS_ERR_STATE, "the gradients are still in flight: "
                                        "call ls_ddp_finish before the step");
    if (status == LS_OK)
        status = lsi_ddp_check_synced(
            ddp, "",
            "use ls_ddp_backward instead of ls_ddp_accumulate for the last "
            "micro-step");
    return status == LS_OK ? lsi_ddp_before_step(ddp)
                           : lsi_ddp_refuse_step(ddp, status);
}

/* ---- making -------------------------------------------------------------- */

static void add_spans(ls_ddp *ddp)
{
    size_t count;
    float *const grads = ls_params_flat_grad(ddp->params, &count);
    for (size_t i = ls_params_count(ddp->params); i-- > 0;) {
        if (!ls_params_is_trainable(ddp->params, i))
            continue;
        const ls_tensor *const tensor = ls_params_get(ddp->params, i);
        const lsi_range range = lsi_params_range(ddp->params, i);
        lsi_ddp_add_span(ddp, i,
                         (lsi_grad_range){grads + range.begin,
                                          (size_t)ls_tensor_count(tensor),
                                          lsi_range_size(range)});
    }
    ddp->extra = (lsi_grad_range){lsi_params_grad_extra(ddp->params),
                                  LSI_GRAD_EXTRA, LSI_GRAD_EXTRA};
}

static ls_status check_params(const ls_ddp *ddp, const ls_params *params,
                              const ls_ddp_options *options)
{
    if (!params->storage.allocated)
        return lsi_fail(LS_ERR_STATE,
                        "ls_ddp_new: the parameters are not allocated; call "
                        "ls_params_allocate first");
    if (params->sharing.owner != NULL)
        return lsi_fail(LS_ERR_STATE, "ls_ddp_new: another ls_ddp already uses "
                                      "these parameters; free it first");
    const lsi_strategy *strategy;
    LS_TRY(lsi_strategy_find(options->strategy, &strategy));
    if (params->storage.adopts && strategy->share == LSI_SHARE_ALL &&
        ddp->replicas < lsi_node_count(ddp->group))
        return lsi_fail(
            LS_ERR_UNSUPPORTED,
            "ls_ddp_new: strategy 'fsdp' divides weights over nodes, but some "
            "parameters are in the program's memory (ls_params_adopt), which "
            "holds all of them; use strategy 'shared'");
    if (params->sharing.one_copy && strategy->share < LSI_SHARE_WEIGHTS)
        return lsi_fail(
            LS_ERR_STATE,
            "ls_ddp_new: these parameters are already node-shared (strategy "
            "'shared' or 'fsdp'); create a new ls_params for another strategy");
    return LS_OK;
}

static ls_status prepare(ls_ddp *ddp, ls_params *params,
                         const ls_ddp_options *given)
{
    ls_ddp_options options;
    ls_status status = lsi_ddp_read_options(&options, given);
    if (status == LS_OK)
        status = lsi_replicas_of(ddp->group, &options, &ddp->replicas);
    if (status == LS_OK)
        status = check_params(ddp, params, &options);
    if (status == LS_OK) {
        ddp->params = params;
        ddp->ahead = options.prefetch_layers;
        add_spans(ddp);
    }
    LS_TRY(lsi_ddp_plan(ddp, &options, status));
    LS_TRY(lsi_levels_compare(ddp->channel));
    LS_TRY(start_alike(ddp));
    ddp->owner = (lsi_params_owner){.context = ddp,
                                    .ready = on_ready,
                                    .forgotten = on_forgotten,
                                    .before_step = before_step,
                                    .after_step = lsi_ddp_after_step,
                                    .add_up = lsi_ddp_add_up,
                                    .need = lsi_ddp_need,
                                    .need_again = lsi_ddp_need_again};
    if (ddp->strategy->share >= LSI_SHARE_STATE && lsi_ddp_on_one_node(ddp)) {
        ddp->owner.moved = lsi_ddp_moved;
        ddp->owner.piece = (size_t)lsi_threads() * PIECE;
    }
    params->sharing.owner =
        &ddp->owner; /* from here on ls_ddp_free undoes it */
    LS_TRY(lsi_ddp_assign_part(ddp));
    if (ddp->strategy->share != LSI_SHARE_ALL)
        lsi_params_use_all_grads(params);
    return LS_OK;
}

ls_status ls_ddp_new(ls_ddp **out, ls_group *group, ls_params *params,
                     const ls_ddp_options *options)
{
    LS_NEED(out, group, params);
    const size_t n = ls_params_count(params);
    ls_ddp *ddp;
    LS_TRY(lsi_ddp_make(&ddp, group, n, n));
    const ls_status status = prepare(ddp, params, options);
    if (status != LS_OK) {
        ls_ddp_free(&ddp);
        return status;
    }
    *out = ddp;
    return LS_OK;
}

void lsi_ddp_defer_scale(ls_ddp *ddp)
{
    ddp->deferred = true;
}

double lsi_ddp_grad_scale(const ls_ddp *ddp)
{
    return ddp->scale;
}

double lsi_ddp_waited(const ls_ddp *ddp)
{
    return ddp->waited + lsi_reducer_waited(ddp->reducer);
}

double lsi_ddp_loss(const ls_ddp *ddp)
{
    return ddp->mean;
}

/* ---- backward ------------------------------------------------------------ */

/* Zeros are a gradient, too. */
static ls_status fill_unused(ls_ddp *ddp)
{
    for (size_t i = 0; i < ddp->n; i++) {
        const size_t index = ddp->index_of[i];
        if (ddp->params->params.items[index]->written != 0)
            continue;
        LS_TRY(lsi_params_count_grad(ddp->params, index));
        lsi_ddp_set_unused(ddp, i);
    }
    return LS_OK;
}

static ls_status synchronise(ls_ddp *ddp)
{
    LSI_SPAN(PHASE, "gradient sync", 0, 0);
    ls_params_finish_grad(ddp->params);
    LS_TRY(lsi_ddp_finish(ddp));
    if (!ddp->deferred)
        lsi_ddp_scale(ddp);
    return LS_OK;
}

ls_status ls_ddp_set_loss_scale(ls_ddp *ddp, double scale)
{
    LS_NEED(ddp);
    if (ddp->params == NULL || !(scale > 0) || isinf(scale))
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "ls_ddp_set_loss_scale: the scale is %g; it must be positive and "
            "finite. The ls_ddp must be created with ls_ddp_new",
            scale);
    LS_TRY(lsi_ddp_check_synced(ddp, "ls_ddp_set_loss_scale: ",
                                "change the loss scale only between steps"));
    ddp->loss_scale = scale;
    return LS_OK;
}

static ls_status check_backward(const ls_ddp *ddp, const ls_tape *tape,
                                const ls_tensor *loss, double weight,
                                const char *function)
{
    if (tape->status != LS_OK) /* report the first error again */
        return lsi_fail(tape->status, "%s", tape->message);
    LS_TRY(lsi_ddp_check_weight(weight));
    if (loss == NULL && weight > 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "%s: loss is NULL, but weight is %g; only a rank "
                        "without samples (weight 0) may pass NULL",
                        function, weight);
    return check_spoiled(ddp);
}

/* `status` says whether the rank can take part. */
static ls_status run_backward(ls_ddp *ddp, ls_tape *tape, ls_tensor *loss,
                              double scale, bool sync, ls_status status)
{
    if (sync)
        LS_TRY(lsi_ddp_begin(ddp));
    if (status != LS_OK)
        lsi_tape_abandon(tape, status);
    else if (loss != NULL)
        status = ls_backward(tape, loss, scale);
    if (!sync)
        return status;
    if (status == LS_OK)
        status = fill_unused(ddp);
    if (status == LS_OK)
        return synchronise(ddp);
    ddp->syncing = false;
    return lsi_reducer_refuse(ddp->reducer, status);
}

/* ls_backward rejects a loss that is not a single number. */
static double sum_of(const ls_tensor *loss, double weight)
{
    double mean = 0;
    if (weight <= 0 || ls_tensor_item(loss, &mean) != LS_OK)
        return 0;
    return mean * weight;
}

static ls_status backward(ls_ddp *ddp, ls_tape *tape, ls_tensor *loss,
                          double weight, bool sync)
{
    const char *const function = sync ? "ls_ddp_backward" : "ls_ddp_accumulate";
    if (ddp->params == NULL)
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "%s: this ls_ddp has no parameter set; create it with ls_ddp_new",
            function);
    ls_status status = check_backward(ddp, tape, loss, weight, function);
    const bool sound = status == LS_OK;
    if (sound) {
        lsi_live_add_samples(weight);
        ddp->weight += weight;
        ddp->loss += sum_of(loss, weight);
        ddp->unsynced++;
        ddp->has_loss |= loss != NULL;
    }
    status =
        run_backward(ddp, tape, loss, weight * ddp->loss_scale, sync, status);
    if (status != LS_OK && (sound || sync)) {
        /* A failed micro-step does not count, and discards those before it. */
        lsi_ddp_forget(ddp);
        ddp->spoiled = true;
    }
    return status;
}

ls_status ls_ddp_backward(ls_ddp *ddp, ls_tape *tape, ls_tensor *loss,
                          double weight)
{
    LS_NEED(ddp, tape);
    return backward(ddp, tape, loss, weight, true);
}

ls_status ls_ddp_accumulate(ls_ddp *ddp, ls_tape *tape, ls_tensor *loss,
                            double weight)
{
    LS_NEED(ddp, tape);
    return backward(ddp, tape, loss, weight, false);
}
