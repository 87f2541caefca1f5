/* Tensors over the caller's memory. */
#include "array/compute/compute.h"
#include "base/error.h"
#include "base/structs.h"
#include "model/tensor/tensor.h"

static ls_status check_data(const ls_tensor *tensor, const void *data)
{
    if (data != NULL || tensor->count == 0)
        return LS_OK;
    return lsi_fail(LS_ERR_ARGUMENT, "ls_tensor_wrap: data is NULL");
}

/* Sets the caller's strides instead of row-major ones. */
static ls_status set_strides(ls_tensor *tensor, const int64_t *strides)
{
    if (strides == NULL)
        return LS_OK;
    for (int d = 0; d < tensor->ndim; d++)
        tensor->strides[d] = strides[d];
    return lsi_strides_check(tensor);
}

/* Memory up to one past the last element. */
static ls_status set_storage(ls_tensor *tensor, void *data,
                             const ls_wrap_options *options)
{
    LS_TRY(lsi_storage_wrap(&tensor->storage, data, lsi_tensor_extent(tensor)));
    tensor->storage->release = options->release;
    tensor->storage->context = options->context;
    return LS_OK;
}

static ls_status wrap(ls_tensor *tensor, void *data,
                      const ls_wrap_options *options)
{
    LS_TRY(check_data(tensor, data));
    LS_TRY(set_strides(tensor, options->strides));
    return set_storage(tensor, data, options);
}

ls_status ls_tensor_wrap(ls_tensor **out, void *data, ls_dtype dtype, int ndim,
                         const int64_t *shape, const ls_wrap_options *options)
{
    ls_wrap_options own = {0};
    ls_tensor *tensor = NULL;
    LS_NEED(out);
    if (ndim > 0)
        LS_NEED(shape);
    if (options != NULL)
        LS_TRY(LSI_STRUCT_READ(&own, options, ls_wrap_options, context));
    LS_TRY(lsi_compute_check());
    LS_TRY(lsi_tensor_make_empty(&tensor, dtype, ndim, shape));
    const ls_status status = wrap(tensor, data, &own);
    if (status == LS_OK)
        *out = tensor;
    else
        ls_tensor_free(&tensor);
    return status;
}
