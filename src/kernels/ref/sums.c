/* Sums of a whole array, in double. */
#include "kernels/ref/ref.h"

void lsi_ref_sum(double *out, const float *a, size_t n)
{
    double total = 0.0;
    for (size_t i = 0; i < n; i++)
        total += a[i];
    *out = total;
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
