/* Making, counting and querying tensors. */
#include "model/tensor/tensor.h"

#include <string.h>

#include "array/compute/compute.h"
#include "base/error.h"
#include "base/memory.h"

static ls_status new_struct(ls_tensor **out, lsi_pool *pool)
{
    void *block;
    LS_TRY(lsi_pool_take_header(pool, sizeof(ls_tensor), "a tensor", &block));
    ls_tensor *tensor = block;
    *tensor = (ls_tensor){.pool = pool};
    atomic_init(&tensor->refs, 1);
    *out = tensor;
    return LS_OK;
}

static void free_struct(ls_tensor *tensor)
{
    lsi_pool_give_header(tensor->pool, tensor, sizeof *tensor);
}

/* A tensor with a checked shape, dense strides and no storage. */
static ls_status new_shaped(ls_tensor **out, lsi_pool *pool, ls_dtype dtype,
                            int ndim, const int64_t *shape)
{
    int64_t count = 0;
    LS_TRY(lsi_shape_check(dtype, ndim, shape, &count));
    LS_TRY(new_struct(out, pool));
    ls_tensor *tensor = *out;
    tensor->dtype = dtype;
    tensor->ndim = ndim;
    tensor->count = count;
    for (int d = 0; d < ndim; d++)
        tensor->shape[d] = shape[d];
    lsi_shape_strides(ndim, shape, tensor->strides);
    return LS_OK;
}

static size_t dense_bytes(const ls_tensor *tensor)
{
    return (size_t)tensor->count * ls_dtype_size(tensor->dtype);
}

ls_status lsi_tensor_make(ls_tensor **out, const lsi_tensor_spec *spec)
{
    ls_tensor *tensor = NULL;
    LS_TRY(
        new_shaped(&tensor, spec->pool, spec->dtype, spec->ndim, spec->shape));
    const ls_status status = lsi_storage_new(&tensor->storage, spec->pool,
                                             dense_bytes(tensor), spec->tag);
    if (status != LS_OK) {
        free_struct(tensor);
        return status;
    }
    tensor->storage->layout = spec->layout;
    *out = tensor;
    return LS_OK;
}

ls_status lsi_tensor_make_empty(ls_tensor **out, ls_dtype dtype, int ndim,
                                const int64_t *shape)
{
    return new_shaped(out, NULL, dtype, ndim, shape);
}

ls_status lsi_tensor_set_memory(ls_tensor *tensor, void *data)
{
    return lsi_storage_wrap(&tensor->storage, data, dense_bytes(tensor));
}

ls_status ls_tensor_new(ls_tensor **out, ls_dtype dtype, int ndim,
                        const int64_t *shape)
{
    LS_NEED(out);
    if (ndim > 0)
        LS_NEED(shape);
    LS_TRY(lsi_compute_check());
    return lsi_tensor_make(out, &(lsi_tensor_spec){.dtype = dtype,
                                                   .ndim = ndim,
                                                   .shape = shape,
                                                   .tag = LS_MEMORY_OTHER});
}

ls_status ls_tensor_zeros(ls_tensor **out, ls_dtype dtype, int ndim,
                          const int64_t *shape)
{
    LS_NEED(out);
    if (ndim > 0)
        LS_NEED(shape);
    ls_tensor *tensor = NULL;
    LS_TRY(ls_tensor_new(&tensor, dtype, ndim, shape));
    memset(lsi_tensor_raw(tensor), 0, dense_bytes(tensor));
    *out = tensor;
    return LS_OK;
}

ls_tensor *ls_tensor_retain(ls_tensor *tensor)
{
    if (tensor != NULL)
        atomic_fetch_add_explicit(&tensor->refs, 1, memory_order_relaxed);
    return tensor;
}

void ls_tensor_free(ls_tensor **tensor)
{
    if (tensor == NULL || *tensor == NULL)
        return;
    ls_tensor *freed = *tensor;
    *tensor = NULL;
    if (atomic_fetch_sub_explicit(&freed->refs, 1, memory_order_acq_rel) > 1)
        return;
    lsi_storage_release(freed->storage);
    free_struct(freed);
}

ls_dtype ls_tensor_dtype(const ls_tensor *tensor)
{
    return tensor != NULL ? tensor->dtype : LS_F32;
}

int ls_tensor_ndim(const ls_tensor *tensor)
{
    return tensor != NULL ? tensor->ndim : 0;
}

const int64_t *ls_tensor_shape(const ls_tensor *tensor)
{
    return tensor != NULL ? tensor->shape : NULL;
}

const int64_t *ls_tensor_strides(const ls_tensor *tensor)
{
    return tensor != NULL ? tensor->strides : NULL;
}

int64_t ls_tensor_count(const ls_tensor *tensor)
{
    return tensor != NULL ? tensor->count : 0;
}

bool ls_tensor_is_contiguous(const ls_tensor *tensor)
{
    if (tensor == NULL)
        return false;
    int64_t stride = 1;
    for (int d = tensor->ndim - 1; d >= 0; d--) {
        if (tensor->shape[d] != 1 && tensor->strides[d] != stride)
            return tensor->count == 0;
        stride *= tensor->shape[d];
    }
    return true;
}

ls_status ls_tensor_map(ls_tensor *tensor, void **out)
{
    LS_NEED_TENSOR(tensor);
    LS_NEED(out);
    LS_TRY(lsi_tensor_check_address(tensor, "ls_tensor_map"));
    LS_TRY(lsi_tensor_plain(tensor));
    *out = lsi_tensor_raw(tensor);
    return LS_OK;
}

static ls_status check_dtype(const char *function, const ls_tensor *tensor,
                             ls_dtype dtype)
{
    if (tensor->dtype == dtype)
        return LS_OK;
    return lsi_fail(LS_ERR_DTYPE, "%s: the tensor has dtype %s; it must be %s",
                    function, ls_dtype_name(tensor->dtype),
                    ls_dtype_name(dtype));
}

ls_status ls_tensor_map_f32(ls_tensor *tensor, float **out)
{
    void *data;
    LS_NEED_TENSOR(tensor);
    LS_NEED(out);
    LS_TRY(check_dtype(__func__, tensor, LS_F32));
    LS_TRY(ls_tensor_map(tensor, &data));
    *out = data;
    return LS_OK;
}

ls_status ls_tensor_map_i64(ls_tensor *tensor, int64_t **out)
{
    void *data;
    LS_NEED_TENSOR(tensor);
    LS_NEED(out);
    LS_TRY(check_dtype(__func__, tensor, LS_I64));
    LS_TRY(ls_tensor_map(tensor, &data));
    *out = data;
    return LS_OK;
}
