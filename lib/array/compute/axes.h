/*
 * Sums and largest elements over some of the dimensions of a dense f32 array.
 * The result has the other dimensions, in their order, and is dense. The order
 * of a sum does not depend on the number of threads.
 */
#ifndef LS_ARRAY_COMPUTE_AXES_H
#define LS_ARRAY_COMPUTE_AXES_H

#include <stdbool.h>
#include <stdint.h>

#include "lockstep/tensor.h"

typedef struct lsi_axes {
    int ndim;
    int64_t shape[LS_MAX_DIMS];
    bool reduced[LS_MAX_DIMS];
} lsi_axes;

/* y = factor * sum of x; of no elements, 0. */
void lsi_axes_sum(const lsi_axes *axes, float *y, const float *x,
                  double factor);

/* y = sum of a b, element by element; both have all dimensions. */
void lsi_axes_sum_products(const lsi_axes *axes, float *y, const float *a,
                           const float *b);

/* dx = factor * dy, repeated over the reduced dimensions. */
void lsi_axes_spread(const lsi_axes *axes, float *dx, const float *dy,
                     double factor);

/* y = largest of x, NaN if any is NaN. No reduced dimension is empty. */
void lsi_axes_max(const lsi_axes *axes, float *y, const float *x);

/*
 * dx = dy / n where x equals y, the n largest, else 0; NaN where y is NaN.
 * `counts` is memory for one element per element of y.
 */
void lsi_axes_max_backward(const lsi_axes *axes, float *dx, const float *dy,
                           const float *x, const float *y, uint64_t *counts);

#endif
