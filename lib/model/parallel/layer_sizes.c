#include "model/parallel/layer_sizes.h"

#include "base/error.h"
#include "base/memory.h"
#include "model/parallel/layer_name.h"

ls_status lsi_layer_sizes_of(ls_params *params, lsi_layer_sizes *out)
{
    const size_t n = ls_params_count(params);
    *out = (lsi_layer_sizes){.n = 0};
    LS_TRY(lsi_alloc_zeroed(&out->of, n * sizeof(int64_t), LS_MEMORY_OTHER,
                            "the sizes of the model's layers"));
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || !lsi_is_same_layer(ls_params_name(params, i - 1),
                                         ls_params_name(params, i)))
            out->n++;
        if (ls_params_is_trainable(params, i))
            out->of[out->n - 1] += ls_tensor_count(ls_params_get(params, i));
    }
    return LS_OK;
}
