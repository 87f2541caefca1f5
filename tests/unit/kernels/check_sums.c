/* Sums in double: the error of n additions at 53 bits. */
#include <math.h>

#include "harness.h"
#include "testing.h"

static const double half_ulp_f64 = 0x1p-53;

void check_sum(const lsi_kernels *k)
{
    for (size_t l = 0; l < test_length_count; l++) {
        const size_t n = test_lengths[l];
        const float *a = random_floats(n, -1e6, 1e6);
        long double want = 0, size = 0;
        for (size_t i = 0; i < n; i++) {
            want += a[i];
            size += fabsl((long double)a[i]);
        }
        double got;
        k->sum(&got, a, n);
        expect_near(got, (double)want, (double)n * half_ulp_f64 * (double)size,
                    "sum", n);
        release_all();
    }
}

/* Three roundings an element: the difference, its square, the sum. */
void check_squared_distance(const lsi_kernels *k)
{
    for (size_t l = 0; l < test_length_count; l++) {
        const size_t n = test_lengths[l];
        const float *a = random_floats(n, -1e3, 1e3);
        const float *b = random_floats(n, -1e3, 1e3);
        long double want = 0;
        for (size_t i = 0; i < n; i++) {
            const long double d = (long double)a[i] - b[i];
            want += d * d;
        }
        double got;
        k->squared_distance(&got, a, b, n);
        expect_near(got, (double)want,
                    (double)(n + 3) * half_ulp_f64 * (double)want,
                    "squared_distance", n);
        release_all();
    }
}
