/* Element-wise kernels. */
#include <math.h>

#include "array/kernels/ref/ref.h"

void lsi_ref_add(float *y, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = a[i] + b[i];
}

void lsi_ref_sub(float *y, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = a[i] - b[i];
}

void lsi_ref_mul(float *y, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = a[i] * b[i];
}

void lsi_ref_div(float *y, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = a[i] / b[i];
}

void lsi_ref_larger(float *y, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = a[i] > b[i] || isnan(a[i]) ? a[i] : b[i];
}

void lsi_ref_fill(float *y, float value, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = value;
}

void lsi_ref_add_number(float *y, const float *a, float b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = a[i] + b;
}

void lsi_ref_number_minus(float *y, const float *a, float b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = b - a[i];
}

void lsi_ref_over_number(float *y, const float *a, float b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = a[i] / b;
}

void lsi_ref_number_over(float *y, const float *a, float b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = b / a[i];
}

void lsi_ref_scale(float *y, const float *a, float factor, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = a[i] * factor;
}

void lsi_ref_axpy(float *y, const float *a, float factor, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = fmaf(a[i], factor, y[i]);
}

void lsi_ref_relu(float *y, const float *a, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = a[i] < 0.0F ? 0.0F : a[i];
}

void lsi_ref_relu_backward(float *dx, const float *dy, const float *y, size_t n,
                           bool accumulate)
{
    for (size_t i = 0; i < n; i++) {
        const float g = y[i] > 0.0F ? dy[i] : 0.0F;
        dx[i] = accumulate ? dx[i] + g : g;
    }
}

void lsi_ref_dropout(float *y, const float *x, size_t n, lsi_rng_key key,
                     uint64_t sub, uint64_t first, uint32_t threshold,
                     float factor)
{
    for (size_t i = 0; i < n; i++) {
        const bool keep = lsi_rng_u32(key, sub, first + i) >= threshold;
        y[i] = keep ? x[i] * factor : 0.0F;
    }
}

void lsi_ref_normalize_u8(float *y, const uint8_t *x, size_t pixels,
                          const float scale[3], const float shift[3])
{
    for (size_t c = 0; c < 3; c++)
        for (size_t i = c * pixels; i < (c + 1) * pixels; i++)
            y[i] = fmaf((float)x[i], scale[c], shift[c]);
}
