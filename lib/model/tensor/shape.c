/* Shapes and strides: pure integer work. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "model/tensor/tensor.h"

bool lsi_dtype_is_of_tensors(ls_dtype dtype)
{
    switch (dtype) {
    case LS_F32:
    case LS_BF16:
    case LS_F16:
    case LS_I32:
    case LS_I64:
    case LS_U8:
        return true;
    default:
        return false;
    }
}

/*
 * Extents of 0 count as 1 in the product, so that no stride overflows and a
 * view that drops the empty dimension is still addressable.
 */
static ls_status check_bytes(ls_dtype dtype, int ndim, const int64_t *shape)
{
    int64_t bytes = (int64_t)ls_dtype_size(dtype);
    for (int d = 0; d < ndim; d++) {
        const int64_t extent = shape[d] > 0 ? shape[d] : 1;
        if (__builtin_mul_overflow(bytes, extent, &bytes))
            return lsi_fail(LS_ERR_ARGUMENT,
                            "a tensor of shape %s is too large for any memory",
                            lsi_shape_format(ndim, shape).text);
    }
    return LS_OK;
}

ls_status lsi_shape_check(ls_dtype dtype, int ndim, const int64_t *shape,
                          int64_t *count)
{
    if (!lsi_dtype_is_of_tensors(dtype))
        return lsi_fail(LS_ERR_DTYPE,
                        "a tensor cannot have dtype %s; it must be f32, bf16, "
                        "f16, i32, i64 or u8",
                        ls_dtype_name(dtype));
    if (ndim < 0 || ndim > LS_MAX_DIMS)
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "a tensor cannot have %d dimensions; it must have 0 to %d", ndim,
            LS_MAX_DIMS);
    if (ndim > 0 && shape == NULL)
        return lsi_fail(LS_ERR_ARGUMENT, "the shape of a tensor is NULL");
    int64_t product = 1;
    for (int d = 0; d < ndim; d++) {
        if (shape[d] < 0)
            return lsi_fail(LS_ERR_ARGUMENT,
                            "extent %d of the shape %s is negative", d,
                            lsi_shape_format(ndim, shape).text);
    }
    LS_TRY(check_bytes(dtype, ndim, shape));
    for (int d = 0; d < ndim; d++)
        product *= shape[d];
    *count = product;
    return LS_OK;
}

void lsi_shape_strides(int ndim, const int64_t *shape, int64_t *strides)
{
    int64_t stride = 1;
    for (int d = ndim - 1; d >= 0; d--) {
        strides[d] = stride;
        stride *= shape[d] > 0 ? shape[d] : 1;
    }
}

bool lsi_shape_equal(const ls_tensor *a, const ls_tensor *b)
{
    return a->ndim == b->ndim &&
           memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof a->shape[0]) ==
               0;
}

static ls_status strides_too_long(const ls_tensor *tensor)
{
    return lsi_fail(
        LS_ERR_ARGUMENT,
        "strides %s of a tensor of shape %s are too large for any memory",
        lsi_shape_format(tensor->ndim, tensor->strides).text,
        lsi_shape_of(tensor).text);
}

ls_status lsi_strides_check(const ls_tensor *tensor)
{
    int64_t last = 0, step = 0;
    for (int d = 0; d < tensor->ndim; d++) {
        const int64_t n = tensor->shape[d] > 0 ? tensor->shape[d] - 1 : 0;
        if (n > 0 && tensor->strides[d] < 0)
            return lsi_fail(LS_ERR_ARGUMENT,
                            "stride %lld of dimension %d is negative; it must "
                            "be at least 0",
                            (long long)tensor->strides[d], d);
        if (__builtin_mul_overflow(n, tensor->strides[d], &step) ||
            __builtin_add_overflow(last, step, &last))
            return strides_too_long(tensor);
    }
    const int64_t size = (int64_t)ls_dtype_size(tensor->dtype);
    if (last > INT64_MAX / size - 1)
        return strides_too_long(tensor);
    return LS_OK;
}

size_t lsi_tensor_extent(const ls_tensor *tensor)
{
    int64_t last = 0;
    if (tensor->count == 0)
        return 0;
    for (int d = 0; d < tensor->ndim; d++)
        last += (tensor->shape[d] - 1) * tensor->strides[d];
    return (size_t)(last + 1) * ls_dtype_size(tensor->dtype);
}

lsi_shape_text lsi_shape_format(int ndim, const int64_t *shape)
{
    lsi_shape_text out = {"("};
    size_t used = 1;
    for (int d = 0; d < ndim; d++)
        used +=
            (size_t)snprintf(out.text + used, sizeof out.text - used, "%s%lld",
                             d > 0 ? ", " : "", (long long)shape[d]);
    snprintf(out.text + used, sizeof out.text - used, ")");
    return out;
}

lsi_shape_text lsi_shape_of(const ls_tensor *tensor)
{
    return lsi_shape_format(tensor->ndim, tensor->shape);
}
