/*
 * What driver.h says of CUDA's driver, beside what NVIDIA's header does. This
 * is compiled where there is one, and not run.
 */
#include <cuda.h>

#include "array/device/cuda/driver.h"

#define X(name, symbol, arguments)                                             \
    _Static_assert(                                                            \
        __builtin_types_compatible_p(__typeof__(symbol), CUresult arguments),  \
        #symbol " has other arguments");
#include "array/device/cuda/driver.def"
#undef X

#define SAME(ours, theirs)                                                     \
    _Static_assert((int)(ours) == (int)(theirs), #theirs " is another number")
SAME(LSI_CUDA_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME(LSI_CUDA_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
SAME(LSI_CUDA_ECC_UNCORRECTABLE, CUDA_ERROR_ECC_UNCORRECTABLE);
SAME(LSI_CUDA_NVLINK_UNCORRECTABLE, CUDA_ERROR_NVLINK_UNCORRECTABLE);
SAME(LSI_CUDA_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_ADDRESS);
SAME(LSI_CUDA_LAUNCH_FAILED, CUDA_ERROR_LAUNCH_FAILED);
SAME(LSI_CUDA_CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(LSI_CUDA_CAPABILITY_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(LSI_CUDA_HAS_POOLS, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
SAME(LSI_CUDA_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME(LSI_CUDA_IPC_LAZY_PEER_ACCESS, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);

/* What driver.h declares itself if there is no such header. */
_Static_assert(sizeof(CUresult) == sizeof(int), "CUresult");
_Static_assert(sizeof(CUdevice_attribute) == sizeof(int), "attributes");
_Static_assert(__builtin_types_compatible_p(CUdevice, int), "CUdevice");
_Static_assert(__builtin_types_compatible_p(CUdeviceptr, unsigned long long),
               "CUdeviceptr");
_Static_assert(__builtin_types_compatible_p(CUcontext, struct CUctx_st *),
               "CUcontext");
_Static_assert(__builtin_types_compatible_p(CUstream, struct CUstream_st *),
               "CUstream");
_Static_assert(__builtin_types_compatible_p(CUevent, struct CUevent_st *),
               "CUevent");
_Static_assert(sizeof(CUipcMemHandle) == 64, "CUipcMemHandle");
