/*
 * Parameters and buffers by name.
 */
#include "model/checkpoint/params_file.h"

#include "base/error.h"
#include "base/memory.h"
#include "model/tensor/safetensors.h"

/* All tensors of a set; *out is the caller's (lsi_free). */
static ls_status list(const ls_params *params, ls_named_tensor **out, size_t *n)
{
    const size_t parameters = ls_params_count(params);
    *n = parameters + ls_params_buffer_count(params);
    LS_TRY(lsi_alloc(out, *n * sizeof(ls_named_tensor), LS_MEMORY_OTHER,
                     "the tensors of a model"));
    for (size_t i = 0; i < parameters; i++)
        (*out)[i] = (ls_named_tensor){ls_params_name(params, i),
                                      ls_params_get(params, i)};
    for (size_t i = parameters; i < *n; i++)
        (*out)[i] =
            (ls_named_tensor){ls_params_buffer_name(params, i - parameters),
                              ls_params_buffer(params, i - parameters)};
    return LS_OK;
}

ls_status lsi_params_save(const ls_params *params, const char *path,
                          const char *const *metadata, lsi_file_sum *sum)
{
    ls_named_tensor *tensors;
    size_t n;
    LS_TRY(list(params, &tensors, &n));
    const ls_status status =
        lsi_safetensors_save(path, tensors, n, metadata, sum);
    lsi_free(tensors);
    return status;
}

ls_status lsi_params_load(ls_params *params, const char *path)
{
    ls_named_tensor *tensors;
    size_t n;
    LS_TRY(list(params, &tensors, &n));
    const ls_status status = ls_safetensors_load(path, tensors, n);
    lsi_free(tensors);
    ls_params_changed(params);
    return status;
}
