/* Gradients of a set; see grads.h. */
#include "model/autograd/params/grads.h"

#include <assert.h>

#include "array/compute/array.h"
#include "base/error.h"
#include "base/memory.h"
#include "comm/node/shared.h"
#include "model/autograd/params.h"
#include "model/tensor/tensor.h"

/* ---- slices -------------------------------------------------------------- */

ls_status ls_params_set_slices(ls_params *params, int slices)
{
    LS_NEED(params);
    if (slices < 1 || slices > LSI_MAX_SLICES)
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "the number of batch slices is %d; it must be from 1 to %d", slices,
            LSI_MAX_SLICES);
    if (params->storage.allocated)
        return lsi_fail(
            LS_ERR_STATE,
            "the number of batch slices must be set before ls_params_allocate");
    params->storage.slices = slices;
    return LS_OK;
}

_Static_assert((int)LSI_MAX_SLICES <= (int)LSI_ARRAY_MAX_FOLD,
               "LSI_MAX_SLICES must not exceed LSI_ARRAY_MAX_FOLD: all slices "
               "are folded at once");

static float *slice_at(const lsi_param *param, int slice)
{
    const ls_params *const set = param->set;
    return slice == 0
               ? lsi_tensor_raw(param->grad)
               : set->storage.slice_grads +
                     (size_t)(slice - 1) * set->storage.count + param->offset;
}

float *lsi_param_slice(lsi_param *param, int slice, bool *accumulate)
{
    const int used = slice < param->set->storage.slices ? slice : 0;
    const uint64_t bit = (uint64_t)1 << used;
    assert(slice >= 0 && slice < LSI_MAX_SLICES);
    *accumulate = (param->written & bit) != 0;
    param->written |= bit;
    return slice_at(param, used);
}

void lsi_params_fold(ls_params *params, size_t index)
{
    lsi_param *const param = params->params.items[index];
    if (param->grad == NULL || param->written == 1)
        return;
    const size_t count = (size_t)param->tensor->count;
    const int slices = param->written == 0 ? 1 : params->storage.slices;
    float *from[LSI_MAX_SLICES];
    for (int j = 0; j < slices; j++) {
        from[j] = slice_at(param, j);
        if ((param->written >> j & 1) == 0)
            lsi_array_zero(from[j], LS_F32, count);
    }
    if (slices > 1)
        lsi_array_fold(from[0], from, slices, count);
    param->written = 1;
}

/* ---- dropping ------------------------------------------------------------ */

enum { PAGE_FLOATS = 4096 / (int)sizeof(float) };

static lsi_range own_part(const ls_params *params)
{
    size_t n;
    const lsi_range *const owned = lsi_params_owned(params, &n);
    return n > 0 ? owned[0] : (lsi_range){0, 0};
}

/* Bytes of a gradient that this rank does not keep. */
static size_t foreign_bytes(const ls_params *params, size_t index)
{
    const lsi_range range = lsi_params_range(params, index);
    const lsi_range own = lsi_range_common(range, own_part(params));
    return (lsi_range_size(range) - lsi_range_size(own)) * sizeof(float);
}

ls_status lsi_params_count_grad(ls_params *params, size_t index)
{
    lsi_param *const param = params->params.items[index];
    if (!params->sharing.drops_grads || param->grad_counted)
        return LS_OK;
    LS_TRY(lsi_memory_charge(foreign_bytes(params, index), LS_MEMORY_GRADIENTS,
                             "a gradient"));
    param->grad_counted = true;
    return LS_OK;
}

static void discard(ls_params *params, size_t begin, size_t end)
{
    if (begin < end)
        lsi_shared_discard(params->sharing.group,
                           params->storage.flat_grad + begin,
                           (end - begin) * sizeof(float));
}

void lsi_params_drop_grads(ls_params *params, lsi_range range)
{
    if (!params->sharing.drops_grads)
        return;
    const lsi_range own = own_part(params);
    const size_t begin = range.begin / PAGE_FLOATS * PAGE_FLOATS;
    const size_t end = range.end / PAGE_FLOATS * PAGE_FLOATS;
    discard(params, begin, end < own.begin ? end : own.begin);
    discard(params, begin > own.end ? begin : own.end, end);
    for (size_t i = 0; i < params->params.count; i++) {
        lsi_param *const param = params->params.items[i];
        if (!param->grad_counted || param->offset < range.begin ||
            param->offset >= range.end)
            continue;
        lsi_memory_discharge(foreign_bytes(params, i), LS_MEMORY_GRADIENTS);
        param->grad_counted = false;
    }
}

static void begin_dropping(ls_params *params)
{
    const lsi_range own = own_part(params);
    const size_t kept = params->storage.inference ? 0 : lsi_range_size(own);
    assert(own.end <= params->storage.count && !params->sharing.drops_grads);
    discard(params, 0, own.begin);
    discard(params, own.end, params->storage.count);
    params->sharing.grads_uncounted =
        (params->storage.count - kept) * sizeof(float);
    lsi_memory_discharge(params->sharing.grads_uncounted, LS_MEMORY_GRADIENTS);
    params->sharing.drops_grads = true;
}

static void end_dropping(ls_params *params)
{
    lsi_params_drop_grads(params, params->storage.whole);
    lsi_memory_undo_discharge(params->sharing.grads_uncounted,
                              LS_MEMORY_GRADIENTS);
    params->sharing.grads_uncounted = 0;
    params->sharing.drops_grads = false;
}

void lsi_params_set_dropping(ls_params *params, bool drop)
{
    if (drop && !params->sharing.drops_grads && params->sharing.group != NULL)
        begin_dropping(params);
    if (!drop && params->sharing.drops_grads)
        end_dropping(params);
}

/* ---- announcing final gradients ------------------------------------------ */

void ls_params_on_grad_ready(ls_params *params, ls_grad_ready_fn fn,
                             void *context)
{
    if (params == NULL)
        return;
    params->on_ready = fn;
    params->on_ready_context = context;
}

ls_status lsi_param_ready(lsi_param *param)
{
    ls_params *set = param->set;
    if (param->written == 0) /* reached, but without a gradient */
        lsi_params_fold(set, param->index);
    if (set->on_ready != NULL)
        LS_TRY(set->on_ready(set->on_ready_context, param->index));
    if (set->sharing.owner != NULL)
        LS_TRY(set->sharing.owner->ready(set->sharing.owner->context,
                                         param->index));
    return LS_OK;
}
