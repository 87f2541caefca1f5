/* Activations of transformers, computed in double. */
#include "array/kernels/activations.h"
#include "array/kernels/ref/ref.h"
#include "base/math.h"

/* s = 1 / (1 + e^-z) and 1 - s, neither of them by taking from 1. */
typedef struct sigmoid {
    double s, rest;
} sigmoid;

static sigmoid sigmoid_of(double z)
{
    return (sigmoid){1.0 / (1.0 + lsi_exp(-z)), 1.0 / (1.0 + lsi_exp(z))};
}

void lsi_ref_swiglu(float *y, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] =
            (float)((double)a[i] * sigmoid_of((double)a[i]).s * (double)b[i]);
}

void lsi_ref_swiglu_backward(float *da, float *db, const float *dy,
                             const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const double x = (double)a[i], g = (double)dy[i];
        const double gate = (double)b[i];
        const sigmoid t = sigmoid_of(x);
        da[i] = (float)(g * gate * t.s * (1.0 + x * t.rest));
        db[i] = (float)(g * x * t.s);
    }
}

/* 2 u, of which tanh(u) = 2 / (1 + e^-2u) - 1. */
static double gelu_argument(double x)
{
    return LSI_GELU_LINEAR * x + LSI_GELU_CUBIC * x * x * x;
}

void lsi_ref_gelu(float *y, const float *a, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const double x = (double)a[i];
        y[i] = (float)(x * sigmoid_of(gelu_argument(x)).s);
    }
}

void lsi_ref_gelu_backward(float *dx, const float *dy, const float *a, size_t n,
                           bool accumulate)
{
    for (size_t i = 0; i < n; i++) {
        const double x = (double)a[i];
        const sigmoid t = sigmoid_of(gelu_argument(x));
        const double slope = LSI_GELU_LINEAR + 3.0 * LSI_GELU_CUBIC * x * x;
        const float g =
            (float)((double)dy[i] * t.s * (1.0 + x * t.rest * slope));
        dx[i] = accumulate ? dx[i] + g : g;
    }
}
