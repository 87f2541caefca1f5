/*
 * Arrays of floats that are no tensors: parameters in one piece, the state of
 * optimizers. On the host they come from the accounting allocator, on a device
 * from that.
 */
#ifndef LS_MODEL_TENSOR_FLOATS_H
#define LS_MODEL_TENSOR_FLOATS_H

#include "array/device/device.h"
#include "base/memory.h"

/* *out = `count` zeros, the caller's; `what` names them in errors. */
ls_status lsi_floats_new(float **out, lsi_device *device_or_null, size_t count,
                         ls_memory_tag tag, const char *what);

/* Gives them back; accepts NULL. */
void lsi_floats_free(float *floats, lsi_device *device_or_null, size_t count);

#endif
