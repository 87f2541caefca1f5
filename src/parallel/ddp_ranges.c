/*
 * Data parallelism over ranges of memory: for programs that have a model and a
 * backward of their own.
 */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "parallel/ddp_state.h"

/* ---- making -------------------------------------------------------------- */

static ls_status check(const ls_ddp_range *ranges, size_t n,
                       const ls_ddp_options *options)
{
    const lsi_strategy *strategy;
    LS_TRY(lsi_strategy_find(options->strategy, &strategy));
    if (strategy->share != LSI_SHARE_NOTHING)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "ls_ddp_new_ranges: strategy \"%s\" needs a parameter "
                        "set, of which it shares more than gradients",
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

ls_status ls_ddp_new_ranges(ls_ddp **out, ls_group *group,
                            const ls_ddp_range *ranges, size_t n,
                            const ls_ddp_options *options)
{
    LS_NEED(out);
    LS_NEED(group);
    if (n > 0)
        LS_NEED(ranges);
    const ls_ddp_options usual = ls_ddp_defaults();
    if (options == NULL)
        options = &usual;
    ls_ddp *ddp;
    LS_TRY(lsi_ddp_make(&ddp, group, n, n));
    ls_status status = add_ranges(ddp, ranges, n);
    if (status == LS_OK)
        status = lsi_ddp_plan(ddp, options, check(ranges, n, options));
    if (status != LS_OK) {
        ls_ddp_free(&ddp);
        return status;
    }
    *out = ddp;
    return LS_OK;
}

/* ---- a reduction --------------------------------------------------------- */

static ls_status check_form(const ls_ddp *ddp, const char *what)
{
    if (ddp->params != NULL)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "%s needs a ddp that ls_ddp_new_ranges has made", what);
    return LS_OK;
}

ls_status ls_ddp_begin(ls_ddp *ddp, double weight)
{
    LS_NEED(ddp);
    LS_TRY(check_form(ddp, "ls_ddp_begin"));
    LS_TRY(lsi_ddp_check_weight(weight));
    ddp->weight = weight;
    ddp->has_loss = weight > 0;
    return lsi_ddp_begin(ddp);
}

ls_status ls_ddp_ready(ls_ddp *ddp, size_t index)
{
    LS_NEED(ddp);
    LS_TRY(check_form(ddp, "ls_ddp_ready"));
    return lsi_reducer_ready(ddp->reducer, index);
}

static void describe(const ls_ddp *ddp, size_t span, char *text, size_t bytes)
{
    snprintf(text, bytes, "range %zu", ddp->index_of[span]);
}

ls_status ls_ddp_finish(ls_ddp *ddp)
{
    LS_NEED(ddp);
    LS_TRY(check_form(ddp, "ls_ddp_finish"));
    if (!ddp->syncing)
        return lsi_fail(LS_ERR_STATE, "ls_ddp_finish without ls_ddp_begin");
    for (size_t i = 0; i < ddp->n; i++) {
        if (!lsi_reducer_is_ready(ddp->reducer, i))
            lsi_ddp_set_unused(ddp, i);
    }
    LS_TRY(lsi_ddp_finish(ddp, describe));
    lsi_ddp_scale(ddp);
    return LS_OK;
}
