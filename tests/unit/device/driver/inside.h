/* What the files of the stand-in know of each other. */
#ifndef TESTS_UNIT_DEVICE_DRIVER_INSIDE_H
#define TESTS_UNIT_DEVICE_DRIVER_INSIDE_H

#include <pthread.h>

#include "array/device/cuda/driver.h"
#include "standin.h"

/* Their numbers are NVIDIA's. */
enum {
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    NOT_SUPPORTED = 801,
    UNKNOWN = 999
};

struct CUctx_st {
    int device;
    int retained;
    CUresult failure; /* of a command: each call fails with it */
    size_t used;      /* bytes */
};

/* Everything is locked by one. */
typedef struct standin_state {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    standin_settings settings;
    standin_counts counts; /* but contexts, which are counted when asked */
    unsigned commands;     /* copies and fills so far */
} standin_state;

extern standin_state standin_all;

/* *context = the one that is current; 0, or why there is none. */
CUresult standin_current(CUcontext *context);

/* The same; or what has failed in it. */
CUresult standin_check(CUcontext *context);

/* The same if the stream belongs to the context that is current. */
CUresult standin_check_stream(CUstream stream);

/* Waits until the stream has nothing to do; locked. */
void standin_drain(CUstream stream);

/*
 * Where the memory of a device is reached from inside: all `bytes` of it are in
 * one block of the context. NULL if not. Locked.
 */
char *standin_reach(CUcontext context, CUdeviceptr at, size_t bytes);

/* Takes a block away; locked. */
void standin_unmap(CUdeviceptr at);

#define X(name, symbol, arguments) CUresult symbol arguments;
#include "array/device/cuda/driver.def"
#undef X

#endif
