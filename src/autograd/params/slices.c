/* Gradients of the slices of a batch: where they lie, and folding them. */
#include "autograd/params/slices.h"

#include <string.h>

#include "autograd/params.h"
#include "base/error.h"
#include "base/threads.h"
#include "kernels/kernels.h"
#include "tensor/tensor.h"

enum { FOLD_GRAIN = 1 << 15 };

ls_status lsi_params_set_slices(ls_params *params, int slices)
{
    if (slices < 1 || slices > LSI_MAX_SLICES)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "%d slices of a batch; there can be 1 to %d", slices,
                        LSI_MAX_SLICES);
    if (params->allocated)
        return lsi_fail(LS_ERR_STATE, "the number of slices must be set before "
                                      "ls_params_allocate");
    params->storage.slices = slices;
    return LS_OK;
}

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
    *accumulate = (param->written & bit) != 0;
    param->written |= bit;
    return slice_at(param, used);
}

typedef struct folding {
    const float *from[LSI_MAX_SLICES];
    int slices;
    float *to;
} folding;

static void fold_range(void *context, size_t begin, size_t end)
{
    const folding *const f = context;
    const void *from[LSI_MAX_SLICES];
    for (int j = 0; j < f->slices; j++)
        from[j] = f->from[j] + begin;
    lsi_kernels_get()->reduce(f->to + begin, from, f->slices, end - begin,
                              LS_F32, LS_SUM, 1.0);
}

void lsi_params_fold(ls_params *params, size_t index)
{
    lsi_param *const param = params->params.items[index];
    if (param->grad == NULL || param->written == 1)
        return;
    const size_t count = (size_t)param->tensor->count;
    folding f = {.slices = param->written == 0 ? 1 : params->storage.slices,
                 .to = slice_at(param, 0)};
    for (int j = 0; j < f.slices; j++) {
        float *const slice = slice_at(param, j);
        if ((param->written >> j & 1) == 0)
            memset(slice, 0, count * sizeof(float));
        f.from[j] = slice;
    }
    if (f.slices > 1)
        lsi_parallel_for(count, FOLD_GRAIN, fold_range, &f);
    param->written = 1;
}
