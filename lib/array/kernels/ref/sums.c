/* Sums of a whole array, in double, and its largest element. */
#include <math.h>

#include "array/kernels/ref/ref.h"

void lsi_ref_sum(double *out, const float *a, size_t n)
{
    double total = 0.0;
    for (size_t i = 0; i < n; i++)
        total += a[i];
    *out = total;
}

void lsi_ref_row_sum(double *out, const float *a, size_t n)
{
    lsi_ref_sum(out, a, n);
}

void lsi_ref_max(float *out, const float *a, size_t n)
{
    float most = -INFINITY;
    for (size_t i = 0; i < n; i++)
        most = a[i] > most || isnan(a[i]) ? a[i] : most;
    for (size_t i = 0; i < n && !isnan(most); i++)
        most = isnan(a[i]) ? a[i] : most;
    *out = most;
}

void lsi_ref_squared_distance(double *out, const float *a, const float *b,
                              size_t n)
{
    double total = 0.0;
    for (size_t i = 0; i < n; i++) {
        const double difference = (double)a[i] - b[i];
        total += difference * difference;
    }
    *out = total;
}

enum { SUMS = 16 };

static double squares_of_block(const float *a, size_t n)
{
    double sums[SUMS] = {0};
    for (size_t i = 0; i < n; i++)
        sums[i % SUMS] += (double)a[i] * a[i];
    for (int half = SUMS / 2; half > 0; half /= 2) {
        for (int s = 0; s < half; s++)
            sums[s] += sums[s + half];
    }
    return sums[0];
}

void lsi_ref_squares(double *out, const float *a, size_t n)
{
    for (; n > LSI_SQUARES_BLOCK; n -= LSI_SQUARES_BLOCK) {
        *out++ = squares_of_block(a, LSI_SQUARES_BLOCK);
        a += LSI_SQUARES_BLOCK;
    }
    if (n > 0)
        *out = squares_of_block(a, n);
}
