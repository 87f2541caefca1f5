/* Functions that all operations need; see compute.h. */
#include "array/compute/compute.h"

#include "base/error.h"
#include "fold/fold.h"

ls_status lsi_compute_check(void)
{
    return lsi_fold_check();
}

ls_status lsi_compute_check_indices(const char *what, lsi_indices indices,
                                    int64_t end)
{
    for (size_t i = 0; i < indices.n; i++) {
        const int64_t index = indices.data[(int64_t)i * indices.stride];
        if (index < 0 || index >= end)
            return lsi_fail(LS_ERR_ARGUMENT,
                            "%s %zu is %lld; it must be at least 0 and below "
                            "%lld",
                            what, i, (long long)index, (long long)end);
    }
    return LS_OK;
}
