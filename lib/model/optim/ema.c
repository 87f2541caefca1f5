/* Averages of weights; see ema.h. */
#include "model/optim/ema.h"

#include <math.h>

#include "array/compute/array.h"
#include "base/error.h"
#include "base/memory.h"
#include "model/autograd/params.h"
#include "model/autograd/params/adopt.h"
#include "model/optim/param_group.h"
#include "model/tensor/tensor.h"

float lsi_ema_rest(double decay, uint64_t steps)
{
    const double t = (double)steps + 1, early = (1 + t) / (10 + t);
    return (float)(1 - (decay < early ? decay : early));
}

/* ---- buffers ------------------------------------------------------------- */

static size_t elements(const ls_params *params, size_t buffer)
{
    return (size_t)ls_tensor_count(params->buffers.items[buffer]->tensor);
}

static float *values(const ls_params *params, size_t buffer)
{
    return lsi_tensor_raw(params->buffers.items[buffer]->tensor);
}

float *lsi_ema_buffer(const ls_optimizer *optimizer, size_t index)
{
    float *at = optimizer->ema.buffers;
    for (size_t i = 0; at != NULL && i < index; i++)
        at += elements(optimizer->params, i);
    return at;
}

void lsi_ema_step_buffers(const ls_optimizer *optimizer)
{
    const ls_params *const params = optimizer->params;
    float *at = optimizer->ema.buffers;
    const float rest =
        lsi_ema_rest(optimizer->ema.decay, optimizer->groups[0]->steps);
    for (size_t i = 0; at != NULL && i < ls_params_buffer_count(params); i++) {
        lsi_array_blend(at, values(params, i), rest, elements(params, i));
        at += elements(params, i);
    }
}

static void swap_buffers(const ls_optimizer *optimizer)
{
    const ls_params *const params = optimizer->params;
    float *at = optimizer->ema.buffers;
    for (size_t i = 0; at != NULL && i < ls_params_buffer_count(params); i++) {
        lsi_array_swap(at, values(params, i), elements(params, i));
        at += elements(params, i);
    }
}

static ls_status start_buffers(ls_optimizer *optimizer)
{
    const ls_params *const params = optimizer->params;
    lsi_ema *const ema = &optimizer->ema;
    size_t count = 0;
    for (size_t i = 0; i < ls_params_buffer_count(params); i++)
        count += elements(params, i);
    if (count == 0)
        return LS_OK;
    LS_TRY(lsi_alloc_zeroed(&ema->buffers, count * sizeof(float),
                            LS_MEMORY_STATE, "EMA of buffers"));
    float *at = ema->buffers;
    for (size_t i = 0; i < ls_params_buffer_count(params); i++) {
        lsi_array_copy(at, values(params, i), LS_F32, elements(params, i));
        at += elements(params, i);
    }
    return LS_OK;
}

void lsi_ema_free_buffers(lsi_ema *ema)
{
    lsi_free(ema->buffers);
    ema->buffers = NULL;
}

/* ---- all of it ----------------------------------------------------------- */

static void stop(ls_optimizer *optimizer)
{
    for (size_t i = 0; i < optimizer->n_groups; i++)
        lsi_param_group_drop_average(optimizer->groups[i]);
    lsi_ema_free_buffers(&optimizer->ema);
    optimizer->ema = (lsi_ema){.decay = 0};
}

static ls_status start(ls_optimizer *optimizer)
{
    for (size_t i = 0; i < optimizer->n_groups; i++)
        LS_TRY(lsi_param_group_add_average(
            optimizer->groups[i], optimizer->params, optimizer->ema.decay));
    return start_buffers(optimizer);
}

ls_status ls_ema_start(ls_optimizer *optimizer, double decay)
{
    LS_NEED(optimizer);
    if (!(decay > 0 && (float)decay < 1))
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "ls_ema_start: decay is %g; it must be above 0 and below 1", decay);
    if (optimizer->ema.decay > 0)
        return lsi_fail(LS_ERR_STATE,
                        "ls_ema_start: the optimizer already has EMA weights");
    LS_TRY(lsi_optimizer_check_division(optimizer, "ls_ema_start"));
    optimizer->ema.decay = decay;
    const ls_status status = start(optimizer);
    if (status != LS_OK)
        stop(optimizer);
    return status;
}

double ls_ema_decay(const ls_optimizer *optimizer)
{
    return optimizer != NULL ? optimizer->ema.decay : 0;
}

static void swap_run(const ls_params *params, const lsi_param_group *group,
                     lsi_state_run run, double unused)
{
    (void)params;
    (void)unused;
    lsi_array_swap(group->average + run.at, run.weights, run.n);
}

/* For the owner of the weights, a swap is a step like any other. */
ls_status ls_ema_swap(ls_optimizer *optimizer)
{
    LS_NEED(optimizer);
    if (optimizer->ema.decay <= 0)
        return lsi_fail(LS_ERR_STATE, "ls_ema_swap: the optimizer has no EMA "
                                      "weights; call ls_ema_start first");
    const lsi_params_owner *const owner = optimizer->params->sharing.owner;
    LS_TRY(lsi_optimizer_check_division(optimizer, "ls_ema_swap"));
    if (owner != NULL)
        LS_TRY(owner->before_step(owner->context));
    lsi_optimizer_walk(optimizer, swap_run, 0);
    swap_buffers(optimizer);
    optimizer->ema.swapped = !optimizer->ema.swapped;
    lsi_params_stepped(optimizer->params);
    if (owner != NULL)
        LS_TRY(owner->after_step(owner->context));
    lsi_params_write_back(optimizer->params, true);
    return LS_OK;
}

ls_status lsi_ema_check_place(const ls_optimizer *optimizer,
                              const char *function)
{
    return optimizer->ema.swapped
               ? lsi_fail(LS_ERR_STATE,
                          "%s: the parameters currently hold the EMA weights; "
                          "call ls_ema_swap to restore the trained weights",
                          function)
               : LS_OK;
}
