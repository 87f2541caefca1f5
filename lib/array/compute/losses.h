/*
 * Losses, and how often a classifier is right. Labels are checked where they
 * are read: LS_ERR_ARGUMENT names the first that is not a class.
 */
#ifndef LS_ARRAY_COMPUTE_LOSSES_H
#define LS_ARRAY_COMPUTE_LOSSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "array/kernels/arguments.h"
#include "lockstep/types.h"

/* Logits x (rows, cols) f32 and a class for each row. */
typedef struct lsi_cross_entropy {
    const float *x;
    const int64_t *labels;
    size_t rows, cols;
    double smoothing; /* this share of the label's 1 is given to all classes */
} lsi_cross_entropy;

/*
 * *mean = mean of losses[r] = log sum exp x[r] - (1 - smoothing) x[r][label] -
 * smoothing times the mean of x[r]; 0 for no rows. saved (rows) is for
 * backward.
 */
ls_status lsi_cross_entropy_forward(const lsi_cross_entropy *ce, float *mean,
                                    float *losses, lsi_softmax_row *saved);
/*
 * dx (+)= *dy / rows (softmax x[r] - (1 - smoothing) [c = label] -
 * smoothing / cols). LS_ERR_ARGUMENT if a label has changed to one out of
 * range; dx is not written then.
 */
ls_status lsi_cross_entropy_backward(const lsi_cross_entropy *ce,
                                     const float *dy,
                                     const lsi_softmax_row *saved, float *dx,
                                     bool accumulate);

/* *y = mean of (a - b)^2; 0 for n = 0. */
void lsi_mse_forward(float *y, const float *a, const float *b, size_t n);
/* da = sign 2 *dy / n (a - b): the gradient of a, and with -1 that of b. */
void lsi_mse_backward(float *da, const float *dy, double sign, const float *a,
                      const float *b, size_t n);

/* *y = mean of max(x, 0) - x t + log(1 + e^-|x|); 0 for n = 0. */
void lsi_bce_forward(float *y, const float *x, const float *t, size_t n);
/* dx = *dy / n (1 / (1 + e^-x) - t), and dt = -*dy / n x. */
void lsi_bce_backward(float *dx, const float *dy, const float *x,
                      const float *t, size_t n);
void lsi_bce_target_backward(float *dt, const float *dy, const float *x,
                             size_t n);

/*
 * *correct = rows whose first largest of x (rows, cols), f32 or half, is at
 * their label; never if it or another is NaN. Strides in elements.
 */
typedef struct lsi_accuracy {
    const void *x;
    ls_dtype dtype;
    int64_t row_stride, col_stride;
    const int64_t *labels;
    int64_t label_stride;
    int64_t rows, cols;
} lsi_accuracy;

ls_status lsi_accuracy_count(const lsi_accuracy *a, int64_t *correct);

#endif
