/* Gradients of the slices of a batch: where they lie, and folding them. */
#include "array/compute/array.h"
#include <assert.h>

#include "base/error.h"
#include "model/autograd/params.h"
#include "model/tensor/tensor.h"

ls_status lsi_params_set_slices(ls_params *params, int slices)
{
    if (slices < 1 || slices > LSI_MAX_SLICES)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "%d slices of a batch; there can be 1 to %d", slices,
                        LSI_MAX_SLICES);
    if (params->storage.allocated)
        return lsi_fail(LS_ERR_STATE, "the number of slices must be set before "
                                      "ls_params_allocate");
    params->storage.slices = slices;
    return LS_OK;
}

_Static_assert((int)LSI_MAX_SLICES <= (int)LSI_ARRAY_MAX_FOLD,
               "all slices are folded at once");

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
