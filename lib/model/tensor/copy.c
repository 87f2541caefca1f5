/*
 * Contents: copying between any strides and types, filling, reading one
 * element.
 */
#include <math.h>

#include "array/compute/array.h"
#include "array/compute/copy.h"
#include "base/error.h"
#include "model/tensor/tensor.h"

/* ---- copy ---------------------------------------------------------------- */

static lsi_strided strided(const ls_tensor *tensor)
{
    return lsi_strided_of(lsi_tensor_raw(tensor), tensor->dtype, tensor->ndim,
                          tensor->strides);
}

static void copy_elements(const ls_tensor *dst, const ls_tensor *src)
{
    const lsi_strided to = strided(dst), from = strided(src);
    lsi_copy_strided(&to, &from, dst->ndim, dst->shape);
}

/* From the first to one past the last byte that a tensor touches. */
static void extent_of(const ls_tensor *tensor, uintptr_t *begin, uintptr_t *end)
{
    *begin = (uintptr_t)lsi_tensor_raw(tensor);
    *end = *begin + lsi_tensor_extent(tensor);
}

static bool overlap(const ls_tensor *a, const ls_tensor *b)
{
    uintptr_t a_begin = 0, a_end = 0, b_begin = 0, b_end = 0;
    extent_of(a, &a_begin, &a_end);
    extent_of(b, &b_begin, &b_end);
    return a_begin < b_end && b_begin < a_end;
}

/* Copies through a temporary dense tensor, as if src had been read first. */
static ls_status copy_overlapping(ls_tensor *dst, const ls_tensor *src)
{
    ls_tensor *between = NULL;
    LS_TRY(ls_tensor_new(&between, src->dtype, src->ndim, src->shape));
    copy_elements(between, src);
    copy_elements(dst, between);
    ls_tensor_free(&between);
    return LS_OK;
}

static ls_status copy_in_place(ls_tensor *dst, const ls_tensor *src)
{
    if (dst->count == 0)
        return LS_OK;
    if (overlap(dst, src))
        return copy_overlapping(dst, src);
    copy_elements(dst, src);
    return LS_OK;
}

static ls_status check_memory(const ls_tensor *tensor, const char *function)
{
    LS_TRY(lsi_tensor_check_memory(tensor, function));
    return lsi_tensor_plain(tensor);
}

ls_status ls_tensor_copy(ls_tensor *dst, const ls_tensor *src)
{
    LS_NEED_TENSOR(dst);
    LS_NEED_TENSOR(src);
    LS_TRY(check_memory(dst, "ls_tensor_copy"));
    LS_TRY(check_memory(src, "ls_tensor_copy"));
    if (!lsi_shape_equal(dst, src))
        return lsi_fail(LS_ERR_SHAPE,
                        "ls_tensor_copy: shape %s cannot be copied into %s",
                        lsi_shape_of(src).text, lsi_shape_of(dst).text);
    return copy_in_place(dst, src);
}

ls_status ls_tensor_clone(const ls_tensor *tensor, ls_tensor **out)
{
    ls_tensor *clone = NULL;
    LS_NEED_TENSOR(tensor);
    LS_NEED(out);
    LS_TRY(lsi_tensor_check_memory(tensor, "ls_tensor_clone"));
    LS_TRY(ls_tensor_new(&clone, tensor->dtype, tensor->ndim, tensor->shape));
    const ls_status status = ls_tensor_copy(clone, tensor);
    if (status == LS_OK)
        *out = clone;
    else
        ls_tensor_free(&clone);
    return status;
}

ls_status ls_tensor_contiguous(ls_tensor *tensor, ls_tensor **out)
{
    LS_NEED_TENSOR(tensor);
    LS_NEED(out);
    LS_TRY(lsi_tensor_check_memory(tensor, "ls_tensor_contiguous"));
    if (!ls_tensor_is_contiguous(tensor))
        return ls_tensor_clone(tensor, out);
    *out = ls_tensor_retain(tensor);
    return LS_OK;
}

/* ---- fill and item ------------------------------------------------------- */

/* Rounds to the nearest integer; a value that does not fit is an error. */
static ls_status integer_for(ls_dtype dtype, double value, int64_t *out)
{
    const double low = dtype == LS_U8    ? 0.0
                       : dtype == LS_I32 ? (double)INT32_MIN
                                         : -0x1p63;
    const double end = dtype == LS_U8    ? 0x1p8
                       : dtype == LS_I32 ? 0x1p31
                                         : 0x1p63;
    const double rounded = nearbyint(value);
    if (!(rounded >= low && rounded < end))
        return lsi_fail(LS_ERR_ARGUMENT,
                        "the value %g is out of range for a tensor of dtype %s",
                        value, ls_dtype_name(dtype));
    *out = (int64_t)rounded;
    return LS_OK;
}

static ls_status element_for(ls_dtype dtype, double value, void *element)
{
    int64_t integer = 0;
    if (lsi_dtype_is_integer(dtype)) {
        LS_TRY(integer_for(dtype, value, &integer));
        lsi_array_convert(element, dtype, &integer, LS_I64, 1);
    } else {
        lsi_array_convert(element, dtype, &value, LS_F64, 1);
    }
    return LS_OK;
}

ls_status ls_tensor_fill(ls_tensor *tensor, double value)
{
    LS_NEED_TENSOR(tensor);
    uint64_t element = 0;
    LS_TRY(check_memory(tensor, "ls_tensor_fill"));
    LS_TRY(element_for(tensor->dtype, value, &element));
    if (tensor->count == 0)
        return LS_OK;
    const lsi_strided dst = strided(tensor);
    const lsi_strided src = {.data = &element, .dtype = tensor->dtype};
    lsi_copy_strided(&dst, &src, tensor->ndim, tensor->shape);
    return LS_OK;
}

ls_status ls_tensor_item(const ls_tensor *tensor, double *out)
{
    LS_NEED_TENSOR(tensor);
    LS_TRY(check_memory(tensor, "ls_tensor_item"));
    LS_NEED(out);
    if (tensor->count != 1)
        return lsi_fail(LS_ERR_SHAPE,
                        "ls_tensor_item: the tensor of shape %s has %lld "
                        "elements, not one",
                        lsi_shape_of(tensor).text, (long long)tensor->count);
    lsi_array_convert(out, LS_F64, lsi_tensor_raw(tensor), tensor->dtype, 1);
    return LS_OK;
}
