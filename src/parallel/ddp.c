/*
 * Data parallelism over a parameter set.
 *
 * Backward is seeded with the weight of the rank's samples, so gradients are
 * sums over samples; the weights are summed over micro-steps and then, behind
 * the gradients, over ranks. Sum divided by weight is the mean over all
 * samples, however unevenly they are spread.
 */
#include "parallel/ddp.h"

#include <math.h>

#include "autograd/params.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "kernels/kernels.h"
#include "parallel/strategy.h"

enum { SCALE_GRAIN = 1 << 16 };

struct ls_ddp {
    const lsi_strategy *strategy;
    void *state;
    ls_group *group;
    ls_params *params;
    double weight; /* of this rank's samples since the last sync */
    double scale;  /* that makes the gradients means; 1 if they are */
    bool deferred; /* the scale is left to the optimizer */
};

static ls_status broadcast_tensor(ls_group *group, ls_tensor *tensor)
{
    return ls_broadcast(group, ls_tensor_data(tensor),
                        (size_t)ls_tensor_count(tensor),
                        ls_tensor_dtype(tensor), 0);
}

static ls_status broadcast_parameters(const ls_ddp *ddp)
{
    size_t count;
    float *const flat = ls_params_flat(ddp->params, &count);
    LS_TRY(ls_broadcast(ddp->group, flat, count, LS_F32, 0));
    for (size_t i = 0; i < ls_params_count(ddp->params); i++) {
        if (!ls_params_is_trainable(ddp->params, i))
            LS_TRY(broadcast_tensor(ddp->group, ls_params_get(ddp->params, i)));
    }
    return LS_OK;
}

ls_status lsi_ddp_broadcast_buffers(ls_ddp *ddp)
{
    for (size_t i = 0; i < ls_params_buffer_count(ddp->params); i++)
        LS_TRY(broadcast_tensor(ddp->group, ls_params_buffer(ddp->params, i)));
    return LS_OK;
}

static ls_status prepare(ls_ddp *ddp)
{
    LS_TRY(broadcast_parameters(ddp));
    LS_TRY(lsi_ddp_broadcast_buffers(ddp));
    return ddp->strategy->plan(&ddp->state, ddp->group, ddp->params);
}

ls_status ls_ddp_new(ls_ddp **out, ls_group *group, ls_params *params,
                     const char *strategy)
{
    if (out == NULL || group == NULL || params == NULL)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "ls_ddp_new needs out, a group and parameters");
    const lsi_strategy *found;
    LS_TRY(lsi_strategy_find(strategy, &found));
    size_t count;
    if (ls_params_flat_grad(params, &count) == NULL)
        return lsi_fail(LS_ERR_STATE, "ls_ddp_new needs parameters that "
                                      "ls_params_allocate has laid out");
    void *block;
    LS_TRY(lsi_alloc_zeroed(&block, sizeof(ls_ddp), LS_MEMORY_OTHER,
                            "data parallelism"));
    ls_ddp *ddp = block;
    *ddp = (ls_ddp){
        .strategy = found, .group = group, .params = params, .scale = 1};
    const ls_status status = prepare(ddp);
    if (status != LS_OK) {
        lsi_free(ddp);
        return status;
    }
    *out = ddp;
    return LS_OK;
}

void ls_ddp_free(ls_ddp **ddp)
{
    if (ddp == NULL || *ddp == NULL)
        return;
    (*ddp)->strategy->release((*ddp)->state);
    lsi_free(*ddp);
    *ddp = NULL;
}

void lsi_ddp_defer_scale(ls_ddp *ddp)
{
    ddp->deferred = true;
}

double lsi_ddp_grad_scale(const ls_ddp *ddp)
{
    return ddp->scale;
}

typedef struct scaling {
    float *data;
    float factor;
} scaling;

static void scale_range(void *context, size_t begin, size_t end)
{
    const scaling *const s = context;
    lsi_kernels_get()->scale(s->data + begin, s->data + begin, s->factor,
                             end - begin);
}

static void scale_gradients(ls_ddp *ddp)
{
    size_t count;
    float *const grads = ls_params_flat_grad(ddp->params, &count);
    scaling s = {grads, (float)ddp->scale};
    lsi_parallel_for(count, SCALE_GRAIN, scale_range, &s);
    ddp->scale = 1;
}

static ls_status synchronise(ls_ddp *ddp)
{
    float *const extra = lsi_params_grad_extra(ddp->params);
    ls_params_finish_grad(ddp->params);
    extra[0] = (float)ddp->weight;
    LS_TRY(ddp->strategy->reduce(ddp->state));
    /* No sample anywhere: the gradients are zero and stay so. */
    ddp->scale = extra[0] > 0 ? 1.0 / (double)extra[0] : 1.0;
    ddp->weight = 0;
    if (!ddp->deferred)
        scale_gradients(ddp);
    return LS_OK;
}

ls_status ls_ddp_backward(ls_ddp *ddp, ls_tape *tape, ls_tensor *loss,
                          double weight, bool sync)
{
    if (ddp == NULL || tape == NULL)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "ls_ddp_backward needs a ddp and a tape");
    LS_TRY(ls_tape_status(tape));
    if (!(weight >= 0) || isinf(weight))
        return lsi_fail(LS_ERR_ARGUMENT,
                        "weight %g: the number of samples must be finite and "
                        "not negative",
                        weight);
    if (loss == NULL && weight > 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "no loss for samples of weight %g; only a rank "
                        "without samples may pass NULL",
                        weight);
    if (loss != NULL)
        LS_TRY(ls_backward(tape, loss, weight));
    ddp->weight += weight;
    return sync ? synchronise(ddp) : LS_OK;
}
