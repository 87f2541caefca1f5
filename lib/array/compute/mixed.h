/*
 * Element-wise operations on arrays of any real types, computed in f32: half
 * types are converted block by block, in the first-level cache.
 */
#ifndef LS_ARRAY_COMPUTE_MIXED_H
#define LS_ARRAY_COMPUTE_MIXED_H

#include <stdbool.h>
#include <stddef.h>

#include "lockstep/types.h"

typedef struct lsi_mixed {
    void *data;
    ls_dtype dtype;
} lsi_mixed;

/* Of an element. */
static inline size_t lsi_mixed_size(lsi_mixed a)
{
    return a.data != NULL ? ls_dtype_size(a.dtype) : 0;
}

void lsi_mixed_add(lsi_mixed y, lsi_mixed a, lsi_mixed b, size_t n);

void lsi_mixed_relu(lsi_mixed y, lsi_mixed x, size_t n);
/* dx = dy where y > 0, else 0. dx may be dy. */
void lsi_mixed_relu_backward(lsi_mixed dx, lsi_mixed dy, lsi_mixed y, size_t n);

void lsi_mixed_swiglu(lsi_mixed y, lsi_mixed a, lsi_mixed b, size_t n);
/* Two in out: da, db; three in in: dy, a, b. */
void lsi_mixed_swiglu_backward(const lsi_mixed *out, const lsi_mixed *in,
                               size_t n);

void lsi_mixed_gelu(lsi_mixed y, lsi_mixed x, size_t n);
/* dx (+)= dy dgelu/dx */
void lsi_mixed_gelu_backward(lsi_mixed dx, lsi_mixed dy, lsi_mixed x, size_t n,
                             bool accumulate);

#endif
