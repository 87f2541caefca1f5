/* Elements of f32 arrays by their place along an axis. */
#ifndef LS_ARRAY_COMPUTE_CHOOSE_H
#define LS_ARRAY_COMPUTE_CHOOSE_H

#include <stdint.h>

#include "array/compute/along.h"
#include "lockstep/status.h"

/* y[o][j][i] = x[o][indices[o][j][i]][i], j < m; `of` describes x. */
typedef struct lsi_choice {
    lsi_along of;
    size_t m;
    const int64_t *indices;
} lsi_choice;

/* LS_ERR_ARGUMENT names an index out of range. */
ls_status lsi_take_along(const lsi_choice *take, float *y, const float *x);

/*
 * dx = the sum of dy over the places with that index, in the order of j.
 * LS_ERR_ARGUMENT if an index has changed to one out of range; dx is not
 * written then.
 */
ls_status lsi_take_along_backward(const lsi_choice *take, float *dx,
                                  const float *dy);

/*
 * y (outer, inner) = where the largest element is, the first of equal ones; the
 * first NaN if there is one. n is not 0.
 */
void lsi_argmax(lsi_along of, int64_t *y, const float *x);

#endif
