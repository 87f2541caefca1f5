/*
 * Where parameters lie: the flat buffers of those that are trained, in reverse
 * order of definition, and one block for the rest.
 */
#include <string.h>

#include "autograd/params.h"
#include "base/error.h"
#include "base/memory.h"
#include "comm/api/shared_alloc.h"
#include "comm/core/agree.h"
#include "tensor/tensor.h"

static size_t padded(const lsi_param *param)
{
    const size_t count = (size_t)param->tensor->count;
    return (count + LSI_PARAM_ALIGN - 1) / LSI_PARAM_ALIGN * LSI_PARAM_ALIGN;
}

static size_t place_trained(ls_params *params)
{
    size_t total = 0;
    for (size_t i = params->params.count; i-- > 0;) {
        lsi_param *param = params->params.items[i];
        if (!param->trainable)
            continue;
        param->offset = total;
        total += padded(param);
    }
    return total;
}

static size_t rest_size(const ls_params *params)
{
    size_t total = 0;
    for (size_t i = 0; i < params->params.count; i++) {
        if (!params->params.items[i]->trainable)
            total += padded(params->params.items[i]);
    }
    for (size_t i = 0; i < params->buffers.count; i++)
        total += padded(params->buffers.items[i]);
    return total;
}

static ls_status alloc_floats(float **out, size_t count, ls_memory_tag tag,
                              const char *what)
{
    void *block = NULL;
    LS_TRY(lsi_alloc_zeroed(&block, count * sizeof(float), tag, what));
    *out = block;
    return LS_OK;
}

/* Shared memory is counted as communication; this is what it is for. */
static void move_charge(const ls_params *params, ls_memory_tag from,
                        ls_memory_tag to)
{
    lsi_memory_move((params->count + LSI_GRAD_EXTRA) * sizeof(float), from, to);
}

static ls_status alloc_gradients(ls_params *params, ls_group *group)
{
    const size_t count = params->count + LSI_GRAD_EXTRA;
    if (group == NULL)
        return alloc_floats(&params->flat_grad, count, LS_MEMORY_GRADIENTS,
                            "the gradients");
    void *shared = NULL;
    LS_TRY(lsi_shared_alloc_sparse(group, count * sizeof(float), &shared));
    params->flat_grad = shared;
    params->group = group;
    move_charge(params, LS_MEMORY_COMM, LS_MEMORY_GRADIENTS);
    return LS_OK;
}

static ls_status alloc_slices(ls_params *params)
{
    const size_t more = (size_t)params->slices - 1;
    return more == 0
               ? LS_OK
               : alloc_floats(&params->slice_grads, more * params->count,
                              LS_MEMORY_GRADIENTS, "the gradients of slices");
}

/* Points the tensors to their memory. */
static ls_status attach_trained(const ls_params *params)
{
    for (size_t i = 0; i < params->params.count; i++) {
        lsi_param *param = params->params.items[i];
        const ls_tensor *tensor = param->tensor;
        if (!param->trainable)
            continue;
        LS_TRY(
            lsi_tensor_set_memory(param->tensor, params->flat + param->offset));
        LS_TRY(lsi_tensor_make_empty(&param->grad, LS_F32, tensor->ndim,
                                     tensor->shape));
        LS_TRY(lsi_tensor_set_memory(param->grad,
                                     params->flat_grad + param->offset));
    }
    return LS_OK;
}

static ls_status attach_rest(const ls_params *params)
{
    float *next = params->rest;
    for (size_t i = 0; i < params->params.count; i++) {
        const lsi_param *param = params->params.items[i];
        if (param->trainable)
            continue;
        LS_TRY(lsi_tensor_set_memory(param->tensor, next));
        next += padded(param);
    }
    for (size_t i = 0; i < params->buffers.count; i++) {
        const lsi_param *buffer = params->buffers.items[i];
        LS_TRY(lsi_tensor_set_memory(buffer->tensor, next));
        next += padded(buffer);
    }
    return LS_OK;
}

/* After a failure nothing is attached, so that allocate can be tried again. */
static void detach(const lsi_param_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        lsi_param *param = list->items[i];
        ls_tensor_free(&param->grad);
        lsi_storage_release(param->tensor->storage);
        param->tensor->storage = NULL;
    }
}

/* What no other rank has a part in. */
static ls_status alloc_own(ls_params *params)
{
    LS_TRY(alloc_floats(&params->flat, params->count, LS_MEMORY_PARAMETERS,
                        "the parameters"));
    LS_TRY(alloc_floats(&params->rest, rest_size(params), LS_MEMORY_PARAMETERS,
                        "frozen parameters"));
    return alloc_slices(params);
}

static ls_status attach_all(const ls_params *params)
{
    LS_TRY(attach_trained(params));
    return attach_rest(params);
}

/* Either all ranks have their memory or none has. */
ls_status lsi_params_layout(ls_params *params, ls_group *group)
{
    ls_status status = LS_OK;
    params->count = place_trained(params);
    params->whole = (lsi_range){0, params->count};
    LS_TRY_GOTO(status, lsi_agree_to_plan(group, alloc_own(params)), release);
    LS_TRY_GOTO(status, alloc_gradients(params, group), release);
    LS_TRY_GOTO(status, lsi_agree_to_plan(group, attach_all(params)), detach);
    return LS_OK;

detach:
    detach(&params->params);
    detach(&params->buffers);
release:
    lsi_params_release_memory(params);
    return status;
}

void lsi_params_release_memory(ls_params *params)
{
    lsi_params_set_dropping(params, false);
    if (params->group != NULL) {
        void *shared = params->flat_grad;
        move_charge(params, LS_MEMORY_GRADIENTS, LS_MEMORY_COMM);
        ls_shared_free(params->group, &shared);
    } else {
        lsi_free(params->flat_grad);
    }
    if (params->home != NULL)
        lsi_params_leave_home(params);
    else
        lsi_free(params->flat);
    lsi_free(params->rest);
    lsi_free(params->slice_grads);
    lsi_free(params->owned);
    params->flat_grad = params->flat = params->rest = NULL;
    params->slice_grads = NULL;
    params->owned = NULL;
    params->group = NULL;
}

/* ---- ranges -------------------------------------------------------------- */

lsi_range lsi_params_range(const ls_params *params, size_t index)
{
    const lsi_param *param = params->params.items[index];
    return (lsi_range){param->offset, param->offset + padded(param)};
}

ls_status lsi_params_set_owned(ls_params *params, const lsi_range *ranges,
                               size_t n)
{
    void *block;
    LS_TRY(lsi_alloc(&block, n * sizeof(lsi_range), LS_MEMORY_OTHER,
                     "the ranges of a rank"));
    if (n > 0)
        memcpy(block, ranges, n * sizeof(lsi_range));
    lsi_free(params->owned);
    params->owned = block;
    params->n_owned = n;
    params->divisions++;
    return LS_OK;
}

void lsi_params_disown(ls_params *params)
{
    params->owner = NULL;
    if (params->owned == NULL)
        return;
    lsi_free(params->owned);
    params->owned = NULL;
    params->divisions++;
}

const lsi_range *lsi_params_owned(const ls_params *params, size_t *n)
{
    *n = params->owned != NULL ? params->n_owned : 1;
    return params->owned != NULL ? params->owned : &params->whole;
}
