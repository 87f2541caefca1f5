/*
 * Parameters and buffers by name.
 */
#include "model/checkpoint/params_file.h"

#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "model/autograd/params.h"
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
                                      params->params.items[i]->tensor};
    for (size_t i = parameters; i < *n; i++)
        (*out)[i] =
            (ls_named_tensor){ls_params_buffer_name(params, i - parameters),
                              params->buffers.items[i - parameters]->tensor};
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

ls_status ls_params_save(const ls_params *params, const char *path,
                         const char *const *metadata)
{
    lsi_file_sum sum;
    LS_NEED(params, path);
    return lsi_params_save(params, path, metadata, &sum);
}

/* ---- loading ------------------------------------------------------------- */

static bool is_wanted(const ls_params *params, const char *name)
{
    for (size_t i = 0; i < ls_params_count(params); i++) {
        if (strcmp(ls_params_name(params, i), name) == 0)
            return true;
    }
    for (size_t i = 0; i < ls_params_buffer_count(params); i++) {
        if (strcmp(ls_params_buffer_name(params, i), name) == 0)
            return true;
    }
    return false;
}

/* Without this check a larger model would be truncated silently. */
static ls_status check_no_more(const lsi_safetensors_file *file,
                               const ls_params *params)
{
    for (size_t i = 0; i < file->n_entries; i++) {
        if (!is_wanted(params, file->entries[i].name))
            return lsi_fail(LS_ERR_FORMAT,
                            "'%s' contains a tensor '%s', but the model has no "
                            "tensor of this name",
                            file->path, file->entries[i].name);
    }
    return LS_OK;
}

static ls_status fill(ls_params *params, const lsi_safetensors_file *file)
{
    ls_named_tensor *tensors;
    size_t n;
    LS_TRY(check_no_more(file, params));
    LS_TRY(list(params, &tensors, &n));
    const ls_status status = lsi_safetensors_fill(file, tensors, n);
    lsi_free(tensors);
    return status;
}

ls_status ls_params_load(ls_params *params, const char *path)
{
    lsi_safetensors_file file;
    LS_NEED(params, path);
    ls_status status = lsi_safetensors_open(&file, path);
    if (status == LS_OK) {
        status = fill(params, &file);
        lsi_safetensors_close(&file);
    }
    return lsi_params_settle(params, status);
}
