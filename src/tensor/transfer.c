/* Contents of tensors on a device: bytes move as they are. */
#include <math.h>

#include "base/error.h"
#include "tensor/tensor.h"

static const char *const copying = "ls_tensor_copy";

static size_t bytes_of(const ls_tensor *tensor)
{
    return (size_t)tensor->count * ls_dtype_size(tensor->dtype);
}

static ls_status check_dense(const ls_tensor *tensor, const char *function,
                             const lsi_device *device)
{
    if (ls_tensor_is_contiguous(tensor))
        return LS_OK;
    return lsi_fail(LS_ERR_UNSUPPORTED,
                    "%s: the tensor of shape %s has gaps between its elements, "
                    "and %s moves dense ones only",
                    function, lsi_shape_of(tensor).text,
                    lsi_device_name(device));
}

static ls_status check_pair(const ls_tensor *dst, const ls_tensor *src)
{
    if (!lsi_shape_equal(dst, src))
        return lsi_fail(LS_ERR_SHAPE, "%s: shape %s cannot be copied into %s",
                        copying, lsi_shape_of(src).text,
                        lsi_shape_of(dst).text);
    if (dst->dtype != src->dtype)
        return lsi_fail(LS_ERR_DTYPE,
                        "%s: %s cannot become %s on the way from or to a "
                        "device; convert it on the host",
                        copying, ls_dtype_name(src->dtype),
                        ls_dtype_name(dst->dtype));
    const lsi_device *const to = lsi_tensor_device(dst);
    const lsi_device *const from = lsi_tensor_device(src);
    if (to != NULL && from != NULL && to != from)
        return lsi_fail(LS_ERR_UNSUPPORTED,
                        "%s: from %s to %s; copy to the host between them",
                        copying, lsi_device_name(from), lsi_device_name(to));
    return LS_OK;
}

/* Bytes that may overlap, through a block between them. */
static ls_status move_on_device(lsi_device *device, void *dst, const void *src,
                                size_t bytes)
{
    const uintptr_t to = (uintptr_t)dst, from = (uintptr_t)src;
    if (to + bytes <= from || from + bytes <= to)
        return lsi_device_copy(device, dst, src, bytes, LSI_TRANSFER_ON_DEVICE);
    void *between = NULL;
    LS_TRY(lsi_device_take(device, bytes, "overlapping tensors", &between));
    ls_status status =
        lsi_device_copy(device, between, src, bytes, LSI_TRANSFER_ON_DEVICE);
    if (status == LS_OK)
        status = lsi_device_copy(device, dst, between, bytes,
                                 LSI_TRANSFER_ON_DEVICE);
    lsi_device_give(device, between, bytes);
    return status;
}

ls_status lsi_tensor_transfer(ls_tensor *dst, const ls_tensor *src)
{
    lsi_device *const to = lsi_tensor_device(dst);
    lsi_device *const from = lsi_tensor_device(src);
    lsi_device *const device = to != NULL ? to : from;
    LS_TRY(lsi_tensor_exists(dst, copying));
    LS_TRY(lsi_tensor_exists(src, copying));
    LS_TRY(check_pair(dst, src));
    LS_TRY(lsi_tensor_plain(dst));
    LS_TRY(lsi_tensor_plain(src));
    LS_TRY(check_dense(dst, copying, device));
    LS_TRY(check_dense(src, copying, device));
    const size_t bytes = bytes_of(dst);
    if (bytes == 0)
        return LS_OK;
    void *const into = lsi_tensor_raw(dst);
    const void *const out_of = lsi_tensor_raw(src);
    if (to == from)
        return move_on_device(device, into, out_of, bytes);
    return lsi_device_copy(device, into, out_of, bytes,
                           to != NULL ? LSI_TRANSFER_TO_DEVICE
                                      : LSI_TRANSFER_FROM_DEVICE);
}

ls_status lsi_tensor_fill_on_device(ls_tensor *tensor, double value)
{
    lsi_device *const device = lsi_tensor_device(tensor);
    LS_TRY(check_dense(tensor, "ls_tensor_fill", device));
    if (value != 0.0 || signbit(value))
        return lsi_fail(LS_ERR_UNSUPPORTED,
                        "ls_tensor_fill: %s fills with zeros only; fill a "
                        "tensor on the host and copy it",
                        lsi_device_name(device));
    if (tensor->count == 0)
        return LS_OK;
    return lsi_device_fill(device, lsi_tensor_raw(tensor), 0, bytes_of(tensor));
}
