/*
 * Data parallelism over ranges of memory: for programs that have a model and a
 * backward of their own.
 */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "model/parallel/ddp_state.h"

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

static ls_status plan(ls_ddp *ddp, const ls_ddp_range *ranges, size_t n,
                      const ls_ddp_options *given)
{
    ls_ddp_options options;
    ls_status status = lsi_ddp_read_options(&options, given);
    if (status == LS_OK)
        status = check(ranges, n, &options);
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
        status = plan(ddp, ranges, n, options);
    if (status != LS_OK) {
        ls_ddp_free(&ddp);
        return status;
    }
    *out = ddp;
    return LS_OK;
}
