/*
 * Normalisation of rows, f32: y = (x - mean) inv_std weight + bias, inv_std
 * being 1 / sqrt(mean of (x - mean)^2 + eps); without a mean it counts as 0.
 */
#ifndef LS_ARRAY_COMPUTE_ROW_NORM_H
#define LS_ARRAY_COMPUTE_ROW_NORM_H

#include <stdbool.h>
#include <stddef.h>

typedef struct lsi_row_norm {
    const float *x, *weight;
    const float *bias; /* or NULL */
    float *mean;       /* of each row, or NULL; forward writes it */
    float *inv_std;    /* of each row; forward writes it */
    size_t rows, cols;
} lsi_row_norm;

void lsi_row_norm_forward(const lsi_row_norm *norm, float *y, float eps);

/*
 * Sums over rows are taken over blocks of a fixed number of them, so that
 * threads do not change them. This is the number of blocks; backward leaves
 * their sums in dweight and dbias (blocks, cols), for lsi_array_column_sum.
 */
size_t lsi_row_norm_blocks(size_t rows);

typedef struct lsi_row_norm_gradients {
    const float *dy;
    float *dx;
    bool accumulate;        /* dx += */
    float *dweight, *dbias; /* dbias may be NULL */
} lsi_row_norm_gradients;

void lsi_row_norm_backward(const lsi_row_norm *norm,
                           const lsi_row_norm_gradients *gradients);

#endif
