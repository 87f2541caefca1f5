/* The division of a model's state for saving; see part.h. */
#include "model/checkpoint/part.h"

#include <inttypes.h>

#include "base/error.h"
#include "model/autograd/params.h"

ls_status lsi_params_part(ls_group *group, const ls_params *params,
                          lsi_range *part)
{
    size_t n;
    const size_t count = params->storage.count;
    const lsi_range *owned = lsi_params_owned(params, &n);
    int64_t sum = 0;
    const int64_t all = (int64_t)count;
    const int size = ls_group_size(group);
    for (size_t i = 0; i < n; i++)
        sum += (int64_t)lsi_range_size(owned[i]);
    LS_TRY(ls_all_reduce(group, &sum, &sum, 1, LS_I64, LS_REDUCE_SUM));
    *part = (lsi_range){0, count};
    if (sum == all * size)
        *part = lsi_partition_aligned(
            count, (size_t)size, (size_t)ls_group_rank(group), LSI_PARAM_ALIGN);
    else if (sum != all)
        return lsi_fail(LS_ERR_STATE,
                        "the ranks own %" PRId64
                        " elements in total. Together they must own %" PRId64
                        " elements, or each rank must own all of them",
                        sum, all);
    return LS_OK;
}
