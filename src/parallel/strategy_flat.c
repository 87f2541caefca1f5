/*
 * flat: all gradients lie in one buffer, so one all-reduce after backward is
 * enough and nothing is packed or unpacked.
 *
 * Cost: 1 collective of all bytes; no overlap with backward.
 */
#include "autograd/params.h"
#include "base/error.h"
#include "parallel/strategy.h"

static ls_status plan(void **state, ls_group *group, ls_params *params)
{
    size_t count;
    float *const grads = ls_params_flat_grad(params, &count);
    ls_request *request = NULL;
    LS_TRY(ls_all_reduce_plan(group, grads, grads, count + LSI_GRAD_EXTRA,
                              LS_F32, LS_SUM, &request));
    *state = request;
    return LS_OK;
}

static ls_status reduce(void *state)
{
    LS_TRY(ls_start(state));
    return ls_wait(state);
}

static void release(void *state)
{
    ls_request *request = state;
    ls_request_free(&request);
}

const lsi_strategy lsi_strategy_flat = {
    .name = "flat", .plan = plan, .reduce = reduce, .release = release};
