/* Functions of each element of an f32 array, and their gradients. */
#ifndef LS_ARRAY_COMPUTE_FUNCTIONS_H
#define LS_ARRAY_COMPUTE_FUNCTIONS_H

#include <stddef.h>

typedef enum lsi_unary {
    LSI_UNARY_EXP,
    LSI_UNARY_LOG,
    LSI_UNARY_SQRT,
    LSI_UNARY_TANH,
    LSI_UNARY_SIGMOID
} lsi_unary;

/* y may be a. */
void lsi_array_unary(lsi_unary function, float *y, const float *a, size_t n);

/*
 * dx = dy times the derivative. `saved` is the function's output, but of a
 * logarithm its input. dx may be dy.
 */
void lsi_array_unary_backward(lsi_unary function, float *dx, const float *dy,
                              const float *saved, size_t n);

#endif
