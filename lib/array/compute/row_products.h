/*
 * Few rows times a matrix of weights, as when a language model writes token by
 * token. The cost is reading the weights, which therefore stay in their type.
 */
#ifndef LS_ARRAY_COMPUTE_ROW_PRODUCTS_H
#define LS_ARRAY_COMPUTE_ROW_PRODUCTS_H

#include <stdbool.h>
#include <stddef.h>

#include "lockstep/status.h"
#include "lockstep/types.h"

typedef struct lsi_row_products {
    size_t rows, in, out;
    ls_dtype w_dtype; /* f32, bf16, f16 */
} lsi_row_products;

/* With more rows than this, a matrix product is faster. */
enum { LSI_FEW_ROWS = 8 };

/*
 * y (rows, out) = x (rows, in) w^T + bias, w (out, in); all but w are f32, and
 * so is the arithmetic. With at most LSI_FEW_ROWS rows, the bits of a row of y
 * do not depend on the number of rows. Fails only with more rows, without
 * memory to widen w.
 */
ls_status lsi_row_products_run(const lsi_row_products *p, float *y,
                               const float *x, const void *w,
                               const float *bias_or_null);

#endif
