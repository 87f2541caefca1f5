/*
 * Batch normalisation of the columns of x (rows, cols), f32, on the calling
 * thread: the order of the sums over rows is the kernels'.
 */
#ifndef LS_ARRAY_COMPUTE_BATCH_NORM_H
#define LS_ARRAY_COMPUTE_BATCH_NORM_H

#include <stdbool.h>
#include <stddef.h>

/* y = (x - mean) inv_std weight + bias */
typedef struct lsi_batch_norm {
    const float *x, *mean, *inv_std;
    const float *weight, *bias; /* or NULL */
    size_t rows, cols;
} lsi_batch_norm;

void lsi_batch_norm_forward(const lsi_batch_norm *bn, float *y);

/* sum_dy = sum of dy, sum_dy_xhat = sum of dy (x - mean) inv_std, over rows. */
void lsi_batch_norm_sums(const lsi_batch_norm *bn, const float *dy,
                         float *sum_dy, float *sum_dy_xhat);

/*
 * dx (+)= inv_std weight (dy - a - (x - mean) inv_std b), a and b being those
 * sums divided by the number of rows.
 */
void lsi_batch_norm_backward(const lsi_batch_norm *bn, const float *dy,
                             const float *a, const float *b, float *dx,
                             bool accumulate);

/* The mean of each column, and m2 = sum of (x - mean)^2; zeros for no rows. */
void lsi_batch_norm_moments(const float *x, size_t rows, size_t cols,
                            float *mean, float *m2);

/* inv_std = 1 / sqrt(m2 / n + eps); in place is fine. */
void lsi_batch_norm_inv_std(float *inv_std, const float *m2, double n,
                            double eps, size_t cols);

typedef struct lsi_running {
    float *mean, *var;
    double momentum;
} lsi_running;

/*
 * Updates running statistics with those of a batch of `rows` rows: its mean and
 * its unbiased variance, which is variance / divisor. Everything is computed in
 * double and rounded once. One row leaves the running variance unchanged; zero
 * rows leave both unchanged.
 */
void lsi_batch_norm_track(const lsi_running *running, const float *mean,
                          const float *variance, double divisor, double rows,
                          size_t cols);

#endif
