/*
 * Element-wise kernels over long arrays, divided among threads. Each element
 * is computed alone, so the result does not depend on the division; sums are
 * taken over chunks of a fixed size, added in order, for the same reason.
 */
#ifndef LS_AUTOGRAD_SPAN_H
#define LS_AUTOGRAD_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"
#include "lockstep/types.h"

void lsi_span_add(float *y, const float *a, const float *b, size_t n);
void lsi_span_sub(float *y, const float *a, const float *b, size_t n);
void lsi_span_mul(float *y, const float *a, const float *b, size_t n);
void lsi_span_scale(float *y, const float *a, float factor, size_t n);
/* y += a * factor */
void lsi_span_axpy(float *y, const float *a, float factor, size_t n);
void lsi_span_fill(float *y, float value, size_t n);

typedef struct lsi_dropout {
    lsi_rng_key key;
    uint64_t sub;
    uint32_t threshold;
    float factor;
} lsi_dropout;
void lsi_span_dropout(float *y, const float *x, size_t n,
                      const lsi_dropout *dropout);

void lsi_span_convert(void *dst, ls_dtype dst_dtype, const void *src,
                      ls_dtype src_dtype, size_t n);
/*
 * A function of f32 arrays, over arrays of any real types: what is half is
 * converted block by block, in the first-level cache. It must compute each
 * element alone.
 */
typedef enum lsi_mixed_use {
    LSI_MIXED_IN = 1,
    LSI_MIXED_OUT = 2,
    LSI_MIXED_INOUT = 3
} lsi_mixed_use;

typedef struct lsi_mixed {
    void *data;
    ls_dtype dtype;
    lsi_mixed_use use;
} lsi_mixed;

enum { LSI_MIXED_ARRAYS = 5 };

typedef void (*lsi_mixed_fn)(const void *context, float *const *arrays,
                             size_t n);
void lsi_span_mixed(const lsi_mixed *arrays, int n_arrays, size_t n,
                    lsi_mixed_fn fn, const void *context);

/* dx = dy where y > 0, else 0. dx may be dy. */
void lsi_span_relu_backward(lsi_mixed dx, lsi_mixed dy, lsi_mixed y, size_t n);

/* dst += src, any type; halves are rounded once. */
void lsi_span_accumulate(void *dst, const void *src, ls_dtype dtype, size_t n);

/* Sum of a, or of (a - b)^2 if b is not NULL. */
double lsi_span_sum(const float *a, const float *b_or_null, size_t n);

#endif
