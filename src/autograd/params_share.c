/*
 * Trained parameters in memory that the ranks of a node share. Pages that
 * nobody writes take no memory: with one copy, only the first rank's part is
 * there.
 */
#include <string.h>

#include "autograd/params.h"
#include "base/error.h"
#include "base/memory.h"
#include "comm/api/shared_alloc.h"
#include "comm/node/shared.h"
#include "tensor/tensor.h"

/*
 * Shared memory is counted as communication, and on every rank; this is for
 * parameters, and a rank has its part of a single copy.
 */
static void set_home(ls_params *params, ls_group *group, void *home,
                     size_t bytes, size_t counted)
{
    lsi_memory_discharge(bytes - counted, LS_MEMORY_COMM);
    lsi_memory_move(counted, LS_MEMORY_COMM, LS_MEMORY_PARAMETERS);
    params->home = home;
    params->home_group = group;
    params->home_counted = counted;
    params->home_bytes = bytes;
}

static void attach(ls_params *params, float *flat)
{
    for (size_t i = 0; i < params->params.count; i++) {
        lsi_param *const param = params->params.items[i];
        if (!param->trainable)
            continue;
        param->tensor->storage->data = flat + param->offset;
        ls_tensor_free(&param->half); /* shared ones are elsewhere */
        param->half_shared = false;
    }
    params->flat = flat;
}

/* Where `one_copy` finds everything. */
static ls_status settle(ls_params *params, ls_group *group, void *home,
                        bool one_copy)
{
    float *flat = home;
    if (!one_copy || ls_group_local_rank(group) == 0)
        memcpy(home, params->flat, params->count * sizeof(float));
    if (one_copy)
        flat = lsi_shared_first_here(group, home);
    lsi_free(params->flat);
    attach(params, flat);
    params->one_copy = one_copy;
    return one_copy ? ls_barrier(group) : LS_OK;
}

ls_status lsi_params_share(ls_params *params, ls_group *group, size_t capacity,
                           bool one_copy)
{
    void *home = NULL;
    if (params->home != NULL && params->one_copy == one_copy &&
        params->home_group == group)
        return LS_OK;
    if (params->home != NULL)
        return lsi_fail(LS_ERR_STATE, "the parameters are shared in another "
                                      "way; free and make the set anew");
    const size_t bytes = capacity * sizeof(float);
    const size_t size = (size_t)ls_group_local_size(group);
    LS_TRY(one_copy ? lsi_shared_alloc_sparse(group, bytes, &home)
                    : ls_shared_alloc(group, bytes, &home));
    set_home(params, group, home, bytes, one_copy ? bytes / size : bytes);
    const ls_status status =
        one_copy ? lsi_params_share_halves(params, group, capacity) : LS_OK;
    if (status != LS_OK) {
        lsi_params_leave_home(params);
        return status;
    }
    return settle(params, group, home, one_copy);
}

void lsi_params_leave_home(ls_params *params)
{
    const size_t counted = params->home_counted;
    lsi_params_leave_halves(params);
    lsi_memory_move(counted, LS_MEMORY_PARAMETERS, LS_MEMORY_COMM);
    lsi_memory_undo_discharge(params->home_bytes - counted, LS_MEMORY_COMM);
    (void)ls_shared_free(params->home_group, &params->home);
}
