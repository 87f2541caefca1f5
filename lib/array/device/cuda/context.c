/* Devices: which are there, opening one, and what surrounds each call. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "array/device/cuda/cuda.h"

/* ---- each call ----------------------------------------------------------- */

bool lsi_cuda_enter_to_free(lsi_device_context *context)
{
    char text[LSI_CUDA_SENTENCE_BYTES];
    if (lsi_cuda_is_forked()) {
        context->is_lost = true;
        snprintf(context->sentence, sizeof(context->sentence),
                 "this process has been forked, and CUDA works in its parent "
                 "only");
        return false;
    }
    const CUresult result = lsi_cuda.cuCtxPushCurrent(context->primary);
    if (result != 0 && !context->is_lost)
        snprintf(context->sentence, sizeof(context->sentence),
                 "cuCtxPushCurrent: %.200s", lsi_cuda_text(result, text));
    return result == 0;
}

bool lsi_cuda_enter(lsi_device_context *context)
{
    return !context->is_lost && lsi_cuda_enter_to_free(context);
}

/* After these each call of the context fails with the same. */
static bool is_for_good(CUresult result)
{
    return result == LSI_CUDA_ECC_UNCORRECTABLE ||
           result == LSI_CUDA_NVLINK_UNCORRECTABLE ||
           (result >= LSI_CUDA_ILLEGAL_ADDRESS &&
            result <= LSI_CUDA_LAUNCH_FAILED);
}

int lsi_cuda_leave(lsi_device_context *context, CUresult result,
                   const char *format, ...)
{
    CUcontext popped = NULL;
    char what[64], text[LSI_CUDA_SENTENCE_BYTES];
    (void)lsi_cuda.cuCtxPopCurrent(&popped);
    if (result == 0 || context->is_lost) /* then the first sentence stays */
        return result == 0 ? 0 : -1;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    snprintf(context->sentence, sizeof(context->sentence), "%s: %.180s", what,
             lsi_cuda_text(result, text));
    context->is_lost = is_for_good(result);
    return -1;
}

int lsi_cuda_leave_wait(lsi_device_context *context, CUresult result,
                        const char *what)
{
    const int status = lsi_cuda_leave(context, result, "%s", what);
    if (status != 0)
        context->is_lost = true;
    return status;
}

/* ---- without a context --------------------------------------------------- */

/* What count, describe and open have to say, each thread to itself. */
static _Thread_local char sentence[LSI_CUDA_SENTENCE_BYTES];

static int failed(const char *what, CUresult result)
{
    char text[LSI_CUDA_SENTENCE_BYTES];
    snprintf(sentence, sizeof(sentence), "%s: %.200s", what,
             lsi_cuda_text(result, text));
    return -1;
}

const char *lsi_cuda_error(const lsi_device_context *context)
{
    return context != NULL ? context->sentence : sentence;
}

int lsi_cuda_count(int *n)
{
    int there = 0;
    CUresult result = 0;
    if (!lsi_cuda_start(&result, sentence))
        return -1;
    if (result == 0)
        result = lsi_cuda.cuDeviceGetCount(&there);
    if (result != 0 && result != LSI_CUDA_NO_DEVICE)
        return failed("cuDeviceGetCount", result);
    *n = result == 0 ? there : 0;
    return 0;
}

static int get_device(int index, CUdevice *device)
{
    CUresult result = 0;
    if (!lsi_cuda_start(&result, sentence))
        return -1;
    if (result != 0)
        return failed("cuInit", result);
    result = lsi_cuda.cuDeviceGet(device, index);
    return result == 0 ? 0 : failed("cuDeviceGet", result);
}

static int get_attribute(int *value, CUdevice_attribute attribute,
                         CUdevice device)
{
    const CUresult result =
        lsi_cuda.cuDeviceGetAttribute(value, attribute, device);
    return result == 0 ? 0 : failed("cuDeviceGetAttribute", result);
}

int lsi_cuda_describe(int index, lsi_device_facts *out)
{
    lsi_device_facts facts = {.memory = 0};
    CUdevice device = 0;
    int major = 0, minor = 0, version = 0;
    if (get_device(index, &device) != 0 ||
        get_attribute(&major, LSI_CUDA_CAPABILITY_MAJOR, device) != 0 ||
        get_attribute(&minor, LSI_CUDA_CAPABILITY_MINOR, device) != 0)
        return -1;
    CUresult result =
        lsi_cuda.cuDeviceGetName(facts.name, sizeof(facts.name), device);
    if (result != 0)
        return failed("cuDeviceGetName", result);
    result = lsi_cuda.cuDeviceTotalMem(&facts.memory, device);
    if (result != 0)
        return failed("cuDeviceTotalMem", result);
    result = lsi_cuda.cuDriverGetVersion(&version);
    if (result != 0)
        return failed("cuDriverGetVersion", result);
    snprintf(facts.detail, sizeof(facts.detail),
             "compute capability %d.%d, driver of CUDA %d.%d", major, minor,
             version / 1000, version % 1000 / 10);
    *out = facts;
    return 0;
}

int lsi_cuda_open(int index, lsi_device_context **out)
{
    CUdevice device = 0;
    int has_pools = 0;
    if (get_device(index, &device) != 0 ||
        get_attribute(&has_pools, LSI_CUDA_HAS_POOLS, device) != 0)
        return -1;
    lsi_device_context *const context = calloc(1, sizeof(*context));
    if (context == NULL) {
        snprintf(sentence, sizeof(sentence), "the host has no memory");
        return -1;
    }
    context->device = device;
    context->has_pools = has_pools != 0;
    const CUresult result =
        lsi_cuda.cuDevicePrimaryCtxRetain(&context->primary, device);
    if (result != 0) {
        free(context);
        return failed("cuDevicePrimaryCtxRetain", result);
    }
    *out = context;
    return 0;
}

void lsi_cuda_close(lsi_device_context *context)
{
    if (!lsi_cuda_is_forked())
        (void)lsi_cuda.cuDevicePrimaryCtxRelease(context->device);
    free(context);
}
