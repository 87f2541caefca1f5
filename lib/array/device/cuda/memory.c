/* Memory of the device, the host's that it copies well, and sharing. */
#include <stdint.h>
#include <string.h>

#include "array/device/cuda/cuda.h"

_Static_assert(sizeof(CUipcMemHandle) == sizeof(lsi_device_share),
               "a handle is what is shared");

static CUdeviceptr address(const void *block)
{
    return (CUdeviceptr)(uintptr_t)block;
}

static void *pointer(CUdeviceptr block)
{
    return (void *)(uintptr_t)block;
}

/* ---- blocks -------------------------------------------------------------- */

static int full_or(int status, CUresult result)
{
    return result == LSI_CUDA_OUT_OF_MEMORY ? LSI_DEVICE_FULL : status;
}

static int allocate_anywhere(lsi_device_context *context, size_t bytes,
                             void **out)
{
    CUdeviceptr block = 0;
    if (!lsi_cuda_enter(context))
        return -1;
    const CUresult result = lsi_cuda.cuMemAlloc(&block, bytes);
    const int status =
        lsi_cuda_leave(context, result, "cuMemAlloc of %zu bytes", bytes);
    if (status == 0)
        *out = pointer(block);
    return full_or(status, result);
}

static void release_anywhere(lsi_device_context *context, void *block)
{
    if (lsi_cuda_enter_to_free(context))
        (void)lsi_cuda_leave(context, lsi_cuda.cuMemFree(address(block)),
                             "cuMemFree");
}

int lsi_cuda_allocate(lsi_device_stream *stream, size_t bytes, void **out)
{
    lsi_device_context *const context = lsi_cuda_context_of(stream);
    CUdeviceptr block = 0;
    if (!context->has_pools)
        return allocate_anywhere(context, bytes, out);
    if (!lsi_cuda_enter(context))
        return -1;
    const CUresult result =
        lsi_cuda.cuMemAllocAsync(&block, bytes, lsi_cuda_stream_of(stream));
    const int status =
        lsi_cuda_leave(context, result, "cuMemAllocAsync of %zu bytes", bytes);
    if (status == 0)
        *out = pointer(block);
    return full_or(status, result);
}

void lsi_cuda_release(lsi_device_stream *stream, void *block)
{
    lsi_device_context *const context = lsi_cuda_context_of(stream);
    if (!context->has_pools) {
        (void)lsi_cuda_wait(stream);
        release_anywhere(context, block);
    } else if (lsi_cuda_enter_to_free(context)) {
        (void)lsi_cuda_leave(
            context,
            lsi_cuda.cuMemFreeAsync(address(block), lsi_cuda_stream_of(stream)),
            "cuMemFreeAsync");
    }
}

int lsi_cuda_pin(lsi_device_context *context, size_t bytes, void **out)
{
    void *block = NULL;
    if (!lsi_cuda_enter(context))
        return -1;
    if (lsi_cuda_leave(context, lsi_cuda.cuMemHostAlloc(&block, bytes, 0),
                       "cuMemHostAlloc of %zu bytes", bytes) != 0)
        return -1;
    *out = block;
    return 0;
}

void lsi_cuda_unpin(lsi_device_context *context, void *block)
{
    if (lsi_cuda_enter_to_free(context))
        (void)lsi_cuda_leave(context, lsi_cuda.cuMemFreeHost(block),
                             "cuMemFreeHost");
}

/* ---- contents ------------------------------------------------------------ */

int lsi_cuda_copy(lsi_device_stream *stream, void *dst, const void *src,
                  size_t bytes, lsi_transfer way)
{
    static const char *const names[] = {
        [LSI_TRANSFER_TO_DEVICE] = "cuMemcpyHtoDAsync",
        [LSI_TRANSFER_FROM_DEVICE] = "cuMemcpyDtoHAsync",
        [LSI_TRANSFER_ON_DEVICE] = "cuMemcpyDtoDAsync",
    };
    lsi_device_context *const context = lsi_cuda_context_of(stream);
    const CUstream on = lsi_cuda_stream_of(stream);
    CUresult result = 0;
    if (!lsi_cuda_enter(context))
        return -1;
    switch (way) {
    case LSI_TRANSFER_TO_DEVICE:
        result = lsi_cuda.cuMemcpyHtoDAsync(address(dst), src, bytes, on);
        break;
    case LSI_TRANSFER_FROM_DEVICE:
        result = lsi_cuda.cuMemcpyDtoHAsync(dst, address(src), bytes, on);
        break;
    case LSI_TRANSFER_ON_DEVICE:
        result =
            lsi_cuda.cuMemcpyDtoDAsync(address(dst), address(src), bytes, on);
        break;
    }
    return lsi_cuda_leave(context, result, "%s of %zu bytes", names[way],
                          bytes);
}

int lsi_cuda_fill(lsi_device_stream *stream, void *dst, int byte, size_t bytes)
{
    lsi_device_context *const context = lsi_cuda_context_of(stream);
    if (!lsi_cuda_enter(context))
        return -1;
    return lsi_cuda_leave(context,
                          lsi_cuda.cuMemsetD8Async(address(dst),
                                                   (unsigned char)byte, bytes,
                                                   lsi_cuda_stream_of(stream)),
                          "cuMemsetD8Async of %zu bytes", bytes);
}

/* ---- sharing ------------------------------------------------------------- */

/*
 * Blocks of pools cannot be shared by a handle. The driver puts small blocks
 * into one of 2 MiB, all of which another process would then see.
 */
int lsi_cuda_share_allocate(lsi_device_context *context, size_t bytes,
                            void **out)
{
    const size_t unit = (size_t)2 << 20;
    if (bytes > SIZE_MAX - unit)
        return LSI_DEVICE_FULL;
    return allocate_anywhere(context, (bytes + unit - 1) / unit * unit, out);
}

void lsi_cuda_share_release(lsi_device_context *context, void *block)
{
    release_anywhere(context, block);
}

int lsi_cuda_share(lsi_device_context *context, const void *block,
                   lsi_device_share *out)
{
    CUipcMemHandle handle;
    if (!lsi_cuda_enter(context))
        return -1;
    if (lsi_cuda_leave(context,
                       lsi_cuda.cuIpcGetMemHandle(&handle, address(block)),
                       "cuIpcGetMemHandle") != 0)
        return -1;
    memcpy(out, &handle, sizeof(*out));
    return 0;
}

int lsi_cuda_attach(lsi_device_context *context, const lsi_device_share *share,
                    void **out)
{
    CUdeviceptr block = 0;
    CUipcMemHandle handle;
    memcpy(&handle, share, sizeof(handle));
    if (!lsi_cuda_enter(context))
        return -1;
    if (lsi_cuda_leave(context,
                       lsi_cuda.cuIpcOpenMemHandle(
                           &block, handle, LSI_CUDA_IPC_LAZY_PEER_ACCESS),
                       "cuIpcOpenMemHandle") != 0)
        return -1;
    *out = pointer(block);
    return 0;
}

void lsi_cuda_detach(lsi_device_context *context, void *block)
{
    if (lsi_cuda_enter_to_free(context))
        (void)lsi_cuda_leave(context,
                             lsi_cuda.cuIpcCloseMemHandle(address(block)),
                             "cuIpcCloseMemHandle");
}
