/*
 * The flat buffers of parameters as tests reach them, also where they lie on a
 * device (unit/device/on_device.c).
 */
#ifndef TESTS_UNIT_FLAT_H
#define TESTS_UNIT_FLAT_H

#include "model/autograd/params.h"
#include "testing.h"

static inline float *floats_of(float *floats)
{
    void *const there =
        test_device_floats != NULL ? test_device_floats(floats) : NULL;
    return there != NULL ? there : floats;
}

/* Until a device has done what it was given: numbers may be read then that were
 * reached before. */
static inline void settle(void)
{
    (void)floats_of(NULL);
}

static inline float *flat_of(const ls_params *params, size_t *count)
{
    *count = params->storage.count;
    return floats_of(params->storage.flat);
}

static inline float *flat_grad_of(const ls_params *params, size_t *count)
{
    *count = params->storage.count;
    return floats_of(params->storage.flat_grad);
}

#endif
