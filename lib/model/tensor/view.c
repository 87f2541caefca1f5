/* Views: other shapes and strides over the same storage. */
#include "base/error.h"
#include "base/memory.h"
#include "model/tensor/tensor.h"

ls_status lsi_tensor_alias(const ls_tensor *tensor, lsi_pool *pool,
                           ls_tensor **out)
{
    LS_TRY(lsi_tensor_check_allocated(tensor, "a view"));
    LS_TRY(lsi_tensor_plain(tensor));
    void *block;
    LS_TRY(lsi_pool_take_header(pool, sizeof(ls_tensor), "a view", &block));
    ls_tensor *alias = block;
    *alias = (ls_tensor){
        .dtype = tensor->dtype,
        .ndim = tensor->ndim,
        .count = tensor->count,
        .offset = tensor->offset,
        .storage = lsi_storage_retain(tensor->storage),
        .pool = pool,
    };
    atomic_init(&alias->refs, 1);
    for (int d = 0; d < tensor->ndim; d++) {
        alias->shape[d] = tensor->shape[d];
        alias->strides[d] = tensor->strides[d];
    }
    *out = alias;
    return LS_OK;
}

/* Replaces the one extent that is -1; the others stay. */
static ls_status infer_extent(const ls_tensor *tensor, int ndim, int64_t *shape)
{
    int unknown = -1;
    int64_t known = 1;
    for (int d = 0; d < ndim; d++) {
        if (shape[d] != -1) {
            if (__builtin_mul_overflow(known, shape[d], &known))
                known = -1;
        } else if (unknown >= 0) {
            return lsi_fail(LS_ERR_ARGUMENT,
                            "the shape %s has more than one extent of -1; only "
                            "one can be inferred",
                            lsi_shape_format(ndim, shape).text);
        } else {
            unknown = d;
        }
    }
    if (unknown < 0)
        return LS_OK;
    if (known <= 0 || tensor->count % known != 0)
        return lsi_fail(
            LS_ERR_SHAPE,
            "shape %s cannot be viewed as %s: no extent in place of -1 fits",
            lsi_shape_of(tensor).text, lsi_shape_format(ndim, shape).text);
    shape[unknown] = tensor->count / known;
    return LS_OK;
}

ls_status lsi_view_reshape(ls_tensor *alias, int ndim, const int64_t *shape)
{
    int64_t wanted[LS_MAX_DIMS] = {0};
    int64_t count = 0;
    if (ndim < 0 || ndim > LS_MAX_DIMS || (ndim > 0 && shape == NULL))
        return lsi_shape_check(alias->dtype, ndim, shape, &count);
    for (int d = 0; d < ndim; d++)
        wanted[d] = shape[d];
    LS_TRY(infer_extent(alias, ndim, wanted));
    LS_TRY(lsi_shape_check(alias->dtype, ndim, wanted, &count));
    if (count != alias->count)
        return lsi_fail(
            LS_ERR_SHAPE,
            "shape %s (%lld elements) cannot be viewed as %s (%lld elements)",
            lsi_shape_of(alias).text, (long long)alias->count,
            lsi_shape_format(ndim, wanted).text, (long long)count);
    if (!ls_tensor_is_contiguous(alias))
        return lsi_fail(LS_ERR_ARGUMENT,
                        "a tensor of shape %s that is not contiguous cannot "
                        "be viewed as %s; copy it first",
                        lsi_shape_of(alias).text,
                        lsi_shape_format(ndim, wanted).text);
    alias->ndim = ndim;
    for (int d = 0; d < ndim; d++)
        alias->shape[d] = wanted[d];
    lsi_shape_strides(ndim, wanted, alias->strides);
    return LS_OK;
}

static ls_status check_dim(const ls_tensor *tensor, int dim)
{
    if (dim >= 0 && dim < tensor->ndim)
        return LS_OK;
    return lsi_fail(LS_ERR_ARGUMENT, "shape %s has no dimension %d",
                    lsi_shape_of(tensor).text, dim);
}

ls_status lsi_view_narrow(ls_tensor *alias, int dim, int64_t begin, int64_t end)
{
    LS_TRY(check_dim(alias, dim));
    if (begin < 0 || begin > end || end > alias->shape[dim])
        return lsi_fail(LS_ERR_ARGUMENT,
                        "the range %lld to %lld (end excluded) of dimension %d "
                        "does not fit shape %s",
                        (long long)begin, (long long)end, dim,
                        lsi_shape_of(alias).text);
    if (begin < end) /* an empty view stays where the storage begins */
        alias->offset +=
            (size_t)(begin * alias->strides[dim]) * ls_dtype_size(alias->dtype);
    alias->shape[dim] = end - begin;
    alias->count = 1;
    for (int d = 0; d < alias->ndim; d++)
        alias->count *= alias->shape[d];
    return LS_OK;
}

ls_status lsi_view_slice(ls_tensor *alias, int dim, int64_t begin, int64_t end,
                         int64_t step)
{
    LS_TRY(lsi_view_narrow(alias, dim, begin, end));
    const int64_t extent = (end - begin) / step + ((end - begin) % step != 0);
    alias->shape[dim] = extent;
    alias->strides[dim] *= extent > 1 ? step : 1;
    alias->count = 1;
    for (int d = 0; d < alias->ndim; d++)
        alias->count *= alias->shape[d];
    return LS_OK;
}

ls_status lsi_view_transpose(ls_tensor *alias, int a, int b)
{
    LS_TRY(check_dim(alias, a));
    LS_TRY(check_dim(alias, b));
    const int64_t extent = alias->shape[a];
    const int64_t stride = alias->strides[a];
    alias->shape[a] = alias->shape[b];
    alias->strides[a] = alias->strides[b];
    alias->shape[b] = extent;
    alias->strides[b] = stride;
    return LS_OK;
}

/* Hands the alias over if it became the view, else frees it. */
static ls_status finish(ls_status status, ls_tensor *alias, ls_tensor **out)
{
    if (status == LS_OK)
        *out = alias;
    else
        ls_tensor_free(&alias);
    return status;
}

ls_status ls_tensor_view(ls_tensor *tensor, int ndim, const int64_t *shape,
                         ls_tensor **out)
{
    LS_NEED_TENSOR(tensor);
    if (ndim > 0)
        LS_NEED(shape);
    LS_NEED(out);
    ls_tensor *alias = NULL;
    LS_TRY(lsi_tensor_alias(tensor, NULL, &alias));
    return finish(lsi_view_reshape(alias, ndim, shape), alias, out);
}

ls_status ls_tensor_narrow(ls_tensor *tensor, int dim, int64_t begin,
                           int64_t end, ls_tensor **out)
{
    LS_NEED_TENSOR(tensor);
    LS_NEED(out);
    ls_tensor *alias = NULL;
    LS_TRY(lsi_tensor_alias(tensor, NULL, &alias));
    return finish(lsi_view_narrow(alias, dim, begin, end), alias, out);
}

ls_status ls_tensor_transpose(ls_tensor *tensor, int a, int b, ls_tensor **out)
{
    LS_NEED_TENSOR(tensor);
    LS_NEED(out);
    ls_tensor *alias = NULL;
    LS_TRY(lsi_tensor_alias(tensor, NULL, &alias));
    return finish(lsi_view_transpose(alias, a, b), alias, out);
}
