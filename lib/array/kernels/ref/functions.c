/* Functions of one argument, and softmax of rows, computed in double. */
#include <math.h>

#include "array/kernels/ref/ref.h"
#include "base/math.h"

#define FUNCTION(name, function)                                               \
    void lsi_ref_##name(float *y, const float *a, size_t n)                    \
    {                                                                          \
        for (size_t i = 0; i < n; i++)                                         \
            y[i] = (float)function((double)a[i]);                              \
    }

FUNCTION(exp, lsi_exp)
FUNCTION(log, lsi_ln)
FUNCTION(sqrt, sqrt)
FUNCTION(tanh, lsi_tanh)

void lsi_ref_tanh_backward(float *dx, const float *dy, const float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dx[i] = (float)((double)dy[i] * (1.0 - (double)y[i] * (double)y[i]));
}

void lsi_ref_sigmoid(float *y, const float *a, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = (float)(1.0 / (1.0 + lsi_exp(-(double)a[i])));
}

void lsi_ref_sigmoid_backward(float *dx, const float *dy, const float *y,
                              size_t n)
{
    for (size_t i = 0; i < n; i++)
        dx[i] = (float)((double)dy[i] * (double)y[i] * (1.0 - (double)y[i]));
}

/* ---- softmax ------------------------------------------------------------- */

/* The sum of e^(x - largest). */
static double sum_exp(const float *x, size_t cols, double *largest)
{
    double total = 0.0;
    *largest = -INFINITY;
    for (size_t c = 0; c < cols; c++)
        *largest = fmax(*largest, (double)x[c]);
    for (size_t c = 0; c < cols; c++)
        total += lsi_exp((double)x[c] - *largest);
    return total;
}

void lsi_ref_softmax(float *y, const float *x, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++, x += cols, y += cols) {
        double largest = 0.0;
        const double sum = sum_exp(x, cols, &largest);
        for (size_t c = 0; c < cols; c++)
            y[c] = (float)(lsi_exp((double)x[c] - largest) / sum);
    }
}

void lsi_ref_softmax_backward(float *dx, const float *dy, const float *y,
                              size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++, dx += cols, dy += cols, y += cols) {
        double sum = 0.0;
        for (size_t c = 0; c < cols; c++)
            sum += (double)dy[c] * (double)y[c];
        for (size_t c = 0; c < cols; c++)
            dx[c] = (float)((double)y[c] * ((double)dy[c] - sum));
    }
}

void lsi_ref_log_softmax(float *y, const float *x, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++, x += cols, y += cols) {
        double largest = 0.0;
        const double rest = lsi_ln(sum_exp(x, cols, &largest));
        for (size_t c = 0; c < cols; c++)
            y[c] = (float)((double)x[c] - largest - rest);
    }
}

void lsi_ref_log_softmax_backward(float *dx, const float *dy, const float *y,
                                  size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++, dx += cols, dy += cols, y += cols) {
        double sum = 0.0;
        for (size_t c = 0; c < cols; c++)
            sum += (double)dy[c];
        for (size_t c = 0; c < cols; c++)
            dx[c] = (float)((double)dy[c] - lsi_exp((double)y[c]) * sum);
    }
}
