/*
 * CUDA's driver, libcuda.so.1, as far as the module calls it. It is opened when
 * it is first used, so that the module can be built without a CUDA toolkit and
 * loaded without a driver. Types have the names of NVIDIA's cuda.h; where that
 * is included before, they are its own (a test compares the two).
 */
#ifndef LS_ARRAY_DEVICE_CUDA_DRIVER_H
#define LS_ARRAY_DEVICE_CUDA_DRIVER_H

#include <stdbool.h>
#include <stddef.h>

#ifndef __cuda_cuda_h__
typedef int CUresult;
typedef int CUdevice;
typedef int CUdevice_attribute;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUipcMemHandle_st {
    char reserved[64];
} CUipcMemHandle;
#endif

enum { /* results */
       LSI_CUDA_OUT_OF_MEMORY = 2,
       LSI_CUDA_NO_DEVICE = 100,
       LSI_CUDA_ECC_UNCORRECTABLE = 214,
       LSI_CUDA_NVLINK_UNCORRECTABLE = 220,
       LSI_CUDA_ILLEGAL_ADDRESS = 700, /* the first */
       LSI_CUDA_LAUNCH_FAILED = 719    /* and last of what kernels may do */
};

enum { /* attributes of devices, and flags */
       LSI_CUDA_CAPABILITY_MAJOR = 75,
       LSI_CUDA_CAPABILITY_MINOR = 76,
       LSI_CUDA_HAS_POOLS = 115,
       LSI_CUDA_STREAM_NON_BLOCKING = 1,
       LSI_CUDA_IPC_LAZY_PEER_ACCESS = 1
};

typedef struct lsi_cuda_functions {
#define X(name, symbol, arguments) CUresult(*name) arguments;
#include "array/device/cuda/driver.def"
#undef X
} lsi_cuda_functions;

/* Once lsi_cuda_start has succeeded. */
extern lsi_cuda_functions lsi_cuda;

enum { LSI_CUDA_SENTENCE_BYTES = 256 };

/*
 * Opens the driver and initialises it, once in a process; any thread may call
 * it. *result is that of cuInit: 0, or that there is no device. False and a
 * sentence if there is no driver to be used.
 */
bool lsi_cuda_start(CUresult *result, char sentence[LSI_CUDA_SENTENCE_BYTES]);

/*
 * Whether this process is the child of one that has used CUDA, which in the
 * child works no more.
 */
bool lsi_cuda_is_forked(void);

/* "CUDA_ERROR_OUT_OF_MEMORY (out of memory)"; `text` has room for a sentence.
 */
const char *lsi_cuda_text(CUresult result, char text[LSI_CUDA_SENTENCE_BYTES]);

#endif
