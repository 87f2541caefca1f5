/*
 * The weights of a set one by one, without the padding between them.
 */
#ifndef LS_TEST_WEIGHTS_H
#define LS_TEST_WEIGHTS_H

#include <string.h>

#include "lockstep/autograd.h"

/* Copies all parameters, which must be `capacity` at most; returns how many. */
static inline size_t copy_weights(ls_params *params, float *out,
                                  size_t capacity)
{
    size_t at = 0;
    for (size_t i = 0; i < ls_params_count(params); i++) {
        const ls_tensor *const p = ls_params_get(params, i);
        const size_t n = (size_t)ls_tensor_count(p);
        if (n > capacity - at)
            return 0;
        memcpy(out + at, tensor_data(p), n * sizeof(float));
        at += n;
    }
    return at;
}

#endif
