/* The flat buffers of parameters, for tests. */
#ifndef TESTS_UNIT_FLAT_H
#define TESTS_UNIT_FLAT_H

#include "model/autograd/params.h"
#include "testing.h"

static inline float *flat_of(ls_params *params, size_t *count)
{
    *count = params->storage.count;
    return lsi_params_fill(params) == LS_OK ? params->storage.flat : NULL;
}

static inline float *flat_grad_of(ls_params *params, size_t *count)
{
    *count = params->storage.count;
    return params->storage.flat_grad;
}

#endif
