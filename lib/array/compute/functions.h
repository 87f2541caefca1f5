/*
 * Functions of each element of an f32 array, and their gradients, one per row.
 * A row generates lsi_unary_<name>, the operation ls_<name> on the tape and its
 * demand for a gradient check. The file functions.c has forward_<name> and
 * backward_<name>. Plain C is enough for both; kernels can replace it later.
 * Functions that have numbers as arguments, too, are at the end.
 */
#ifndef LS_ARRAY_COMPUTE_FUNCTIONS_H
#define LS_ARRAY_COMPUTE_FUNCTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lsi_kernels;

/* X(name, "text", saves): the gradient is computed from OUTPUT or INPUT. */
#define LSI_UNARIES(X)                                                         \
    X(neg, "-a", OUTPUT)                                                       \
    X(abs, "absolute value of a", INPUT)                                       \
    X(silu, "a / (1 + e^-a)", INPUT)                                           \
    X(gelu_erf, "a times the standard normal CDF at a", INPUT)                 \
    X(exp, "e^a", OUTPUT)                                                      \
    X(log, "natural logarithm", INPUT)                                         \
    X(sqrt, "square root", OUTPUT)                                             \
    X(tanh, "hyperbolic tangent", OUTPUT)                                      \
    X(sigmoid, "1 / (1 + e^-a)", OUTPUT)

typedef struct lsi_unary {
    bool saves_input; /* for the gradient; else the output */
    /* On one thread. y may be a. */
    void (*forward)(const struct lsi_kernels *k, float *y, const float *a,
                    size_t n);
    /* dx = dy times the derivative, on one thread. dx may be dy. */
    void (*backward)(const struct lsi_kernels *k, float *dx, const float *dy,
                     const float *saved, size_t n);
} lsi_unary;

#define X(name, ...) extern const lsi_unary lsi_unary_##name;
LSI_UNARIES(X)
#undef X

/* y may be a. */
void lsi_array_unary(const lsi_unary *function, float *y, const float *a,
                     size_t n);

/* `saved` is the function's output or input. dx may be dy. */
void lsi_array_unary_backward(const lsi_unary *function, float *dx,
                              const float *dy, const float *saved, size_t n);

/* ---- comparisons --------------------------------------------------------- */

/*
 * X(name, operator): y = 1 where a <operator> b, else 0, by lsi_array_<name>;
 * the operation ls_<name> on the tape. Of NaN nothing is true.
 */
#define LSI_COMPARISONS(X)                                                     \
    X(lt, <)                                                                   \
    X(le, <=)                                                                  \
    X(gt, >)                                                                   \
    X(ge, >=)                                                                  \
    X(eq, ==)

#define X(name, operator)                                                      \
    void lsi_array_##name(uint8_t *y, const float *a, const float *b, size_t n);
LSI_COMPARISONS(X)
#undef X

/* ---- functions with numbers as arguments --------------------------------- */

typedef struct lsi_clamp {
    float min, max;
} lsi_clamp;

/* y = a to the power of the exponent, as C's pow. y may be a. */
void lsi_array_pow(float *y, const float *a, double exponent, size_t n);

/* dx = dy exponent a^(exponent - 1); 0 for an exponent of 0. dx may be dy. */
void lsi_array_pow_backward(float *dx, const float *dy, const float *a,
                            double exponent, size_t n);

/* y = min where a is below, max where a is above, else a. y may be a. */
void lsi_array_clamp(float *y, const float *a, lsi_clamp bounds, size_t n);

/* dx = dy where min <= a <= max, else 0. dx may be dy. */
void lsi_array_clamp_backward(float *dx, const float *dy, const float *a,
                              lsi_clamp bounds, size_t n);

#endif
