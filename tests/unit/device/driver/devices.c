/* Devices, contexts and errors of the stand-in. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "inside.h"

enum { DEVICES = 4, DEEPEST = 8 };

standin_state standin_all = {.lock = PTHREAD_MUTEX_INITIALIZER,
                             .changed = PTHREAD_COND_INITIALIZER,
                             .settings.devices = 2};

static pid_t initialised; /* by this process; 0: not yet */
static struct CUctx_st contexts[DEVICES] = {
    {.device = 0}, {.device = 1}, {.device = 2}, {.device = 3}};

static _Thread_local CUcontext stack[DEEPEST];
static _Thread_local int depth;

/* ---- errors -------------------------------------------------------------- */

static const struct {
    CUresult result;
    const char *name, *text;
} errors[] = {
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS",
     "an illegal memory access was encountered"},
    {NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

enum { ERRORS = sizeof(errors) / sizeof(errors[0]) };

CUresult cuGetErrorName(CUresult error, const char **text)
{
    for (int i = 0; i < ERRORS; i++)
        if (errors[i].result == error) {
            *text = errors[i].name;
            return 0;
        }
    *text = NULL;
    return INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
    for (int i = 0; i < ERRORS; i++)
        if (errors[i].result == error) {
            *text = errors[i].text;
            return 0;
        }
    *text = NULL;
    return INVALID_VALUE;
}

/* ---- devices ------------------------------------------------------------- */

static CUresult check_initialised(void)
{
    return initialised == getpid() ? 0 : NOT_INITIALIZED;
}

static CUresult check_device(CUdevice device)
{
    const CUresult result = check_initialised();
    if (result != 0)
        return result;
    return device >= 0 && device < standin_all.settings.devices
               ? 0
               : INVALID_DEVICE;
}

CUresult cuInit(unsigned flags)
{
    if (flags != 0)
        return INVALID_VALUE;
    if (initialised != 0 && initialised != getpid())
        return NOT_INITIALIZED;
    if (standin_all.settings.devices <= 0)
        return standin_all.settings.devices < 0 ? UNKNOWN : NO_DEVICE;
    initialised = getpid();
    return 0;
}

CUresult cuDriverGetVersion(int *version)
{
    *version = 13010;
    return 0;
}

CUresult cuDeviceGetCount(int *n)
{
    const CUresult result = check_initialised();
    if (result == 0)
        *n = standin_all.settings.devices;
    return result;
}

CUresult cuDeviceGet(CUdevice *device, int index)
{
    const CUresult result = check_device(index);
    if (result == 0)
        *device = index;
    return result;
}

CUresult cuDeviceGetName(char *name, int bytes, CUdevice device)
{
    const CUresult result = check_device(device);
    if (result == 0)
        snprintf(name, (size_t)bytes, "Stand-in %d", device);
    return result;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    const CUresult result = check_device(device);
    if (result == 0)
        *bytes = (size_t)(device + 1) << 30;
    return result;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute,
                              CUdevice device)
{
    const CUresult result = check_device(device);
    if (result != 0)
        return result;
    if (attribute == LSI_CUDA_HAS_POOLS)
        *value = !standin_all.settings.has_no_pools;
    else if (attribute == LSI_CUDA_CAPABILITY_MAJOR)
        *value = 9;
    else if (attribute == LSI_CUDA_CAPABILITY_MINOR)
        *value = device;
    else
        return INVALID_VALUE;
    return 0;
}

/* ---- contexts ------------------------------------------------------------ */

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    const CUresult result = check_device(device);
    if (result != 0)
        return result;
    pthread_mutex_lock(&standin_all.lock);
    *context = &contexts[device];
    contexts[device].retained++;
    pthread_mutex_unlock(&standin_all.lock);
    return 0;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    CUresult result = check_device(device);
    if (result != 0)
        return result;
    pthread_mutex_lock(&standin_all.lock);
    CUcontext context = &contexts[device];
    if (context->retained == 0) {
        result = INVALID_CONTEXT;
    } else if (--context->retained == 0) {
        context->failure = 0;
    }
    pthread_mutex_unlock(&standin_all.lock);
    return result;
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    const CUresult result = check_initialised();
    if (result != 0)
        return result;
    if (context == NULL || context->retained == 0 || depth == DEEPEST)
        return INVALID_CONTEXT;
    stack[depth++] = context;
    return 0;
}

CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    const CUresult result = check_initialised();
    if (result != 0)
        return result;
    if (depth == 0)
        return INVALID_CONTEXT;
    *context = stack[--depth];
    return 0;
}

CUresult standin_current(CUcontext *context)
{
    const CUresult result = check_initialised();
    if (result != 0)
        return result;
    if (depth == 0 || stack[depth - 1]->retained == 0)
        return INVALID_CONTEXT;
    *context = stack[depth - 1];
    return 0;
}

CUresult standin_check(CUcontext *context)
{
    const CUresult result = standin_current(context);
    if (result != 0)
        return result;
    pthread_mutex_lock(&standin_all.lock);
    const CUresult failure = (*context)->failure;
    pthread_mutex_unlock(&standin_all.lock);
    return failure;
}

/* ---- what tests ask ------------------------------------------------------ */

static void set(standin_settings settings)
{
    pthread_mutex_lock(&standin_all.lock);
    standin_all.settings = settings;
    standin_all.commands = 0;
    pthread_mutex_unlock(&standin_all.lock);
}

static standin_counts count(void)
{
    pthread_mutex_lock(&standin_all.lock);
    standin_counts counts = standin_all.counts;
    for (int i = 0; i < DEVICES; i++)
        counts.contexts += contexts[i].retained;
    pthread_mutex_unlock(&standin_all.lock);
    return counts;
}

static void make_current(int device)
{
    CUcontext context = NULL;
    (void)cuInit(0);
    if (device >= 0) {
        (void)cuDevicePrimaryCtxRetain(&context, device);
        (void)cuCtxPushCurrent_v2(context);
    } else if (cuCtxPopCurrent_v2(&context) == 0) {
        (void)cuDevicePrimaryCtxRelease_v2(context->device);
    }
}

static int current(void)
{
    return depth == 1 ? stack[0]->device : -1;
}

extern const standin_control standin;
const standin_control standin = {set, count, make_current, current};
