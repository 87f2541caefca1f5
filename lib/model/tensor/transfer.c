/* Between host and device: bytes move as they are. */
#include <string.h>

#include "array/compute/array.h"
#include "array/compute/copy.h"
#include "base/error.h"
#include "model/tensor/tensor.h"

static size_t bytes_of(const ls_tensor *tensor)
{
    return (size_t)tensor->count * ls_dtype_size(tensor->dtype);
}

static ls_status check_pair(const ls_tensor *dst, const ls_tensor *src)
{
    const lsi_device *const to = lsi_tensor_device(dst);
    const lsi_device *const from = lsi_tensor_device(src);
    if (!lsi_shape_equal(dst, src))
        return lsi_fail(LS_ERR_SHAPE,
                        "ls_tensor_copy: shape %s cannot be copied into %s",
                        lsi_shape_of(src).text, lsi_shape_of(dst).text);
    if (to != NULL && from != NULL)
        return lsi_fail(LS_ERR_UNSUPPORTED,
                        "ls_tensor_copy: from %s to %s; copy to the host "
                        "between them",
                        lsi_device_name(from), lsi_device_name(to));
    LS_TRY(lsi_tensor_exists(dst, "ls_tensor_copy"));
    LS_TRY(lsi_tensor_exists(src, "ls_tensor_copy"));
    LS_TRY(lsi_tensor_plain(dst));
    return lsi_tensor_plain(src);
}

/* Both dense, and of one type. */
static ls_status move(const ls_tensor *dst, const ls_tensor *src)
{
    lsi_device *const to = lsi_tensor_device(dst);
    return lsi_device_copy(
        to != NULL ? to : lsi_tensor_device(src), lsi_tensor_raw(dst),
        lsi_tensor_raw(src), bytes_of(dst),
        to != NULL ? LSI_TRANSFER_TO_DEVICE : LSI_TRANSFER_FROM_DEVICE);
}

/* Through dense tensors of dst's type on either side. */
static ls_status move_through(ls_tensor *dst, const ls_tensor *src)
{
    ls_tensor *from = NULL, *to = NULL;
    ls_status status =
        lsi_tensor_make_like(&from, lsi_tensor_device(src), dst->dtype, src);
    if (status == LS_OK)
        status =
            lsi_tensor_make_like(&to, lsi_tensor_device(dst), dst->dtype, src);
    if (status == LS_OK)
        status = ls_tensor_copy(from, src);
    if (status == LS_OK)
        status = move(to, from);
    if (status == LS_OK)
        status = ls_tensor_copy(dst, to);
    ls_tensor_free(&to);
    ls_tensor_free(&from);
    return status;
}

ls_status lsi_tensor_transfer(ls_tensor *dst, const ls_tensor *src)
{
    LS_TRY(check_pair(dst, src));
    if (dst->count == 0)
        return LS_OK;
    if (dst->dtype == src->dtype && ls_tensor_is_contiguous(dst) &&
        ls_tensor_is_contiguous(src))
        return move(dst, src);
    return move_through(dst, src);
}

ls_status lsi_tensor_move_to(lsi_device *device, ls_tensor **tensor)
{
    ls_tensor *there = NULL;
    if (device == NULL)
        return LS_OK;
    LS_TRY(lsi_tensor_make_like(&there, device, (*tensor)->dtype, *tensor));
    const ls_status status = ls_tensor_copy(there, *tensor);
    if (status == LS_OK) {
        ls_tensor *const here = *tensor;
        *tensor = there;
        there = here;
    }
    ls_tensor_free(&there);
    return status;
}

static bool is_zero(const void *element, size_t bytes)
{
    const unsigned char *at = element;
    for (size_t i = 0; i < bytes; i++) {
        if (at[i] != 0)
            return false;
    }
    return true;
}

/* An element of the device's, repeated over the tensor. */
static ls_status repeat(ls_tensor *tensor, const void *element)
{
    ls_tensor *one = NULL;
    lsi_device *const device = lsi_tensor_device(tensor);
    LS_TRY(lsi_tensor_make_on(&one, device, tensor->dtype, 0, NULL));
    const lsi_strided to = lsi_strided_of(lsi_tensor_raw(tensor), tensor->dtype,
                                          tensor->ndim, tensor->strides);
    const lsi_strided from = {.data = lsi_tensor_raw(one),
                              .dtype = tensor->dtype};
    ls_status status =
        lsi_device_copy(device, from.data, element,
                        ls_dtype_size(tensor->dtype), LSI_TRANSFER_TO_DEVICE);
    if (status == LS_OK) {
        lsi_copy_strided(&to, &from, tensor->ndim, tensor->shape);
        status = lsi_device_failure(device);
    }
    ls_tensor_free(&one);
    return status;
}

ls_status lsi_tensor_fill_on_device(ls_tensor *tensor, const void *element)
{
    const size_t size = ls_dtype_size(tensor->dtype);
    if (tensor->count == 0)
        return LS_OK;
    if (is_zero(element, size) && ls_tensor_is_contiguous(tensor))
        return lsi_device_fill(lsi_tensor_device(tensor),
                               lsi_tensor_raw(tensor), 0, bytes_of(tensor));
    if (tensor->dtype == LS_F32 && ls_tensor_is_contiguous(tensor)) {
        float value;
        memcpy(&value, element, sizeof(value));
        lsi_array_fill(lsi_tensor_raw(tensor), value, (size_t)tensor->count);
        return lsi_device_failure(lsi_tensor_device(tensor));
    }
    return repeat(tensor, element);
}
