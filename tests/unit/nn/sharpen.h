/* For tests of attention: with small weights all positions count alike. */
#ifndef LS_TEST_NN_SHARPEN_H
#define LS_TEST_NN_SHARPEN_H

#include "testing.h"

/* Enlarges matrices, so that attention has a choice. */
static inline void sharpen(ls_params *params)
{
    for (size_t i = 0; i < ls_params_count(params); i++) {
        ls_tensor *p = ls_params_get(params, i);
        float *data = tensor_data(p);
        for (int64_t k = 0; k < ls_tensor_count(p); k++)
            data[k] *= ls_tensor_ndim(p) == 2 ? 4.0F : 1.0F;
    }
}

#endif
