/* Copying between any strides and types. */
#ifndef LS_ARRAY_COMPUTE_COPY_H
#define LS_ARRAY_COMPUTE_COPY_H

#include <stdint.h>

#include "lockstep/tensor.h"

typedef struct lsi_strided {
    void *data;
    ls_dtype dtype;
    int64_t strides[LS_MAX_DIMS]; /* in elements; 0 repeats one */
} lsi_strided;

static inline lsi_strided lsi_strided_of(void *data, ls_dtype dtype, int ndim,
                                         const int64_t *strides)
{
    lsi_strided array = {.data = data, .dtype = dtype};
    for (int d = 0; d < ndim; d++)
        array.strides[d] = strides[d];
    return array;
}

/*
 * dst = src, converted, over the same extents, of which there are up to
 * LS_MAX_DIMS and none is 0. The two do not overlap.
 */
void lsi_copy_strided(const lsi_strided *dst, const lsi_strided *src, int ndim,
                      const int64_t *shape);

#endif
