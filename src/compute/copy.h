/* Copying between any strides and types. */
#ifndef LS_COMPUTE_COPY_H
#define LS_COMPUTE_COPY_H

#include <stdint.h>

#include "lockstep/tensor.h"

typedef struct lsi_strided {
    void *data;
    ls_dtype dtype;
    const int64_t *strides; /* in elements; 0 repeats one */
} lsi_strided;

/*
 * dst = src, converted, over the same extents, of which there are up to
 * LS_MAX_DIMS and none is 0. The two do not overlap.
 */
void lsi_copy_strided(const lsi_strided *dst, const lsi_strided *src, int ndim,
                      const int64_t *shape);

#endif
