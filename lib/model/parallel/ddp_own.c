/*
 * Data parallelism for programs with a custom backward: a reduction of
 * gradients that the program has computed, of a parameter set or of ranges of
 * memory.
 *
 * A mistake of a rank between begin and finish does not end its part in the
 * reduction, since other ranks may already wait for it. The rank reports it
 * where it arrives next: in finish or, if the program gives up, in ls_ddp_free.
 */
#include "base/error.h"
#include "model/autograd/params/adopt.h"
#include "model/parallel/ddp_state.h"

/* ---- making it over ranges of memory ------------------------------------- */

static ls_status check_ranges(const ls_ddp_range *ranges, size_t n,
                              const ls_ddp_options *options)
{
    const lsi_strategy *strategy;
    LS_TRY(lsi_strategy_find(options->strategy, &strategy));
    if (strategy->share != LSI_SHARE_NOTHING)
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "ls_ddp_new_ranges: strategy '%s' shards optimizer state or "
            "weights, so it needs an ls_params; call ls_ddp_new instead",
            ls_ddp_strategy_name(strategy->id));
    for (size_t i = 0; i < n; i++) {
        if (ranges[i].data == NULL && ranges[i].count > 0)
            return lsi_fail(LS_ERR_ARGUMENT,
                            "ls_ddp_new_ranges: range %zu is NULL", i);
    }
    return LS_OK;
}

static ls_status add_ranges(ls_ddp *ddp, const ls_ddp_range *ranges, size_t n)
{
    void *extra;
    for (size_t i = 0; i < n; i++)
        lsi_ddp_add_span(
            ddp, i,
            (lsi_grad_range){ranges[i].data, ranges[i].count, ranges[i].count});
    LS_TRY(ls_shared_alloc(ddp->group, LSI_GRAD_EXTRA * sizeof(float), &extra));
    ddp->extra = (lsi_grad_range){extra, LSI_GRAD_EXTRA, LSI_GRAD_EXTRA};
    ddp->own_extra = true;
    return LS_OK;
}

static ls_status plan_ranges(ls_ddp *ddp, const ls_ddp_range *ranges, size_t n,
                             const ls_ddp_options *given)
{
    ls_ddp_options options;
    ls_status status = lsi_ddp_read_options(&options, given);
    if (status == LS_OK)
        status = check_ranges(ranges, n, &options);
    return lsi_ddp_plan(ddp, &options, status);
}

ls_status ls_ddp_new_ranges(ls_ddp **out, ls_group *group,
                            const ls_ddp_range *ranges, size_t n,
                            const ls_ddp_options *options)
{
    LS_NEED(out, group);
    if (n > 0)
        LS_NEED(ranges);
    ls_ddp *ddp;
    LS_TRY(lsi_ddp_make(&ddp, group, n, n));
    ls_status status = add_ranges(ddp, ranges, n);
    if (status == LS_OK)
        status = plan_ranges(ddp, ranges, n, options);
    if (status != LS_OK) {
        ls_ddp_free(&ddp);
        return status;
    }
    *out = ddp;
    return LS_OK;
}

/* ---- begin --------------------------------------------------------------- */

static ls_status check_begin(const ls_ddp *ddp, double weight)
{
    LS_TRY(lsi_ddp_check_weight(weight));
    return lsi_ddp_check_synced(ddp, "ls_ddp_begin: ",
                                "finish with ls_ddp_backward, or discard the "
                                "gradients with ls_params_zero_grad");
}

ls_status ls_ddp_begin(ls_ddp *ddp, double weight)
{
    LS_NEED(ddp);
    if (ddp->begun)
        return lsi_fail(LS_ERR_STATE,
                        "ls_ddp_begin: the previous gradient reduction is not "
                        "finished; call ls_ddp_finish first");
    const ls_status status = check_begin(ddp, weight);
    ddp->first_error.status = LS_OK;
    ddp->spoiled = false;
    ddp->weight = status == LS_OK ? weight : 0;
    ddp->has_loss = ddp->weight > 0;
    LS_TRY(lsi_ddp_begin(ddp));
    ddp->begun = true;
    return lsi_error_keep(&ddp->first_error, status);
}

/* ---- ready --------------------------------------------------------------- */

static ls_status check_index(const ls_ddp *ddp, size_t index)
{
    const ls_params *const params = ddp->params;
    if (params == NULL)
        return index < ddp->n ? LS_OK
                              : lsi_fail(LS_ERR_ARGUMENT,
                                         "ls_ddp_ready: range %zu does not "
                                         "exist; ranges in the ls_ddp: %zu",
                                         index, ddp->n);
    if (index >= ls_params_count(params))
        return lsi_fail(LS_ERR_ARGUMENT,
                        "ls_ddp_ready: parameter %zu does not exist; "
                        "parameters in the set: %zu",
                        index, ls_params_count(params));
    if (ddp->span_of[index] == SIZE_MAX)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "ls_ddp_ready: '%s' (parameter %zu) is frozen and has "
                        "no gradient",
                        ls_params_name(params, index), index);
    return LS_OK;
}

static ls_status check_ready(const ls_ddp *ddp, size_t index)
{
    char name[128];
    LS_TRY(check_index(ddp, index));
    const size_t span = ddp->span_of[index];
    lsi_ddp_describe(ddp, span, name, sizeof(name));
    if (!ddp->begun)
        return lsi_fail(LS_ERR_STATE,
                        "ls_ddp_ready: the gradient of '%s' is ready on rank "
                        "%d, but no reduction has begun; call ls_ddp_begin "
                        "first",
                        name, ls_group_rank(ddp->group));
    if (lsi_reducer_is_ready(ddp->reducer, span))
        return lsi_fail(LS_ERR_STATE,
                        "ls_ddp_ready: the gradient of '%s' was reported ready "
                        "twice since ls_ddp_begin, on rank %d",
                        name, ls_group_rank(ddp->group));
    return LS_OK;
}

ls_status ls_ddp_ready(ls_ddp *ddp, size_t index)
{
    LS_NEED(ddp);
    if (ddp->begun && ddp->first_error.status != LS_OK)
        return lsi_error_again(&ddp->first_error);
    ls_status status = check_ready(ddp, index);
    if (status == LS_OK && ddp->params != NULL)
        status = lsi_params_count_grad(ddp->params, index);
    if (status == LS_OK && ddp->params != NULL)
        lsi_params_accept_grad(ddp->params, index);
    if (status == LS_OK)
        status = lsi_reducer_ready(ddp->reducer, ddp->span_of[index]);
    return !ddp->begun ? status : lsi_error_keep(&ddp->first_error, status);
}

/* ---- finish -------------------------------------------------------------- */

/* Spans that were not ready count as zero. */
static ls_status fill_missing(ls_ddp *ddp)
{
    for (size_t i = 0; i < ddp->n; i++) {
        if (lsi_reducer_is_ready(ddp->reducer, i))
            continue;
        if (ddp->params != NULL)
            LS_TRY(lsi_params_count_grad(ddp->params, ddp->index_of[i]));
        lsi_ddp_set_unused(ddp, i);
    }
    return LS_OK;
}

static void make_means(ls_ddp *ddp)
{
    lsi_ddp_scale(ddp);
    if (ddp->params == NULL)
        return;
    for (size_t i = 0; i < ddp->n; i++)
        ddp->params->params.items[ddp->index_of[i]]->written = 1;
    if (ddp->shard == 0)
        lsi_params_write_back_grads(ddp->params);
}

/* A rank that cannot finish reports the reason to the other ranks. */
static ls_status give_up(ls_ddp *ddp)
{
    const ls_status status = lsi_error_again(&ddp->first_error);
    ddp->syncing = ddp->begun = false;
    lsi_ddp_forget(ddp);
    ddp->spoiled = ddp->params != NULL;
    return lsi_reducer_refuse(ddp->reducer, status);
}

ls_status ls_ddp_finish(ls_ddp *ddp)
{
    LS_NEED(ddp);
    if (!ddp->begun) {
        LS_TRY(lsi_ddp_begin(ddp)); /* others may have, and wait for this one */
        ddp->first_error.status = LS_OK;
        (void)lsi_error_keep(
            &ddp->first_error,
            lsi_fail(LS_ERR_STATE,
                     "ls_ddp_finish: rank %d has not called ls_ddp_begin",
                     ls_group_rank(ddp->group)));
        return give_up(ddp);
    }
    if (ddp->first_error.status == LS_OK)
        (void)lsi_error_keep(&ddp->first_error, fill_missing(ddp));
    if (ddp->first_error.status != LS_OK)
        return give_up(ddp);
    const ls_status status = lsi_ddp_finish(ddp);
    ddp->begun = false;
    if (status == LS_OK)
        make_means(ddp);
    else
        ddp->spoiled = ddp->params != NULL;
    return status;
}

void lsi_ddp_abandon(ls_ddp *ddp)
{
    if (!ddp->begun)
        return;
    if (ddp->first_error.status == LS_OK)
        (void)lsi_error_keep(&ddp->first_error,
                             lsi_fail(LS_ERR_STATE,
                                      "rank %d called ls_ddp_free between "
                                      "ls_ddp_begin and ls_ddp_finish",
                                      ls_group_rank(ddp->group)));
    (void)give_up(ddp);
}
