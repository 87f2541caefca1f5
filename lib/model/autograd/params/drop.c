#include "model/autograd/params/drop.h"

#include <assert.h>

#include "base/error.h"
#include "base/memory.h"
#include "comm/node/shared.h"
#include "model/autograd/params.h"

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
    const size_t kept = lsi_range_size(own);
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
