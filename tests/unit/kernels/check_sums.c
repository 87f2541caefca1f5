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

/* Each of 64 sums, and their sum, is made of no more than n additions. */
void check_row_sum(const lsi_kernels *k)
{
    for (size_t l = 0; l < test_length_count; l++) {
        const size_t n = test_lengths[l];
        const float *a = random_floats(n, -2, 2);
        double want = 0, size = 0, got;
        for (size_t i = 0; i < n; i++) {
            want += (double)a[i];
            size += fabs((double)a[i]);
        }
        k->row_sum(&got, a, n);
        expect_near(got, want, ((double)n + 1) * HALF_ULP * size, "row_sum", n);
        release_all();
    }
}

void check_max(const lsi_kernels *k)
{
    for (size_t l = 0; l < test_length_count; l++) {
        const size_t n = test_lengths[l];
        float *a = random_floats(n, -2, -1), want = -INFINITY, got;
        for (size_t i = 0; i < n; i++)
            want = a[i] > want ? a[i] : want;
        k->max(&got, a, n);
        expect_same(&got, &want, 1, "max");
        for (size_t at = 0; at < n; at += 1 + n / 7) {
            const float old = a[at];
            a[at] = NAN;
            k->max(&got, a, n);
            assert_true(isnan(got));
            a[at] = old;
        }
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

static void expect_squares(const double *got, const float *a, size_t n)
{
    for (size_t b = 0; b * LSI_SQUARES_BLOCK < n; b++) {
        const size_t begin = b * LSI_SQUARES_BLOCK;
        long double want = 0;
        for (size_t i = begin; i < n && i < begin + LSI_SQUARES_BLOCK; i++)
            want += (long double)a[i] * a[i];
        /* 32 additions to each of 16 sums, and 4 of these. */
        expect_near(got[b], (double)want, 36 * half_ulp_f64 * (double)want,
                    "squares", b);
    }
}

/* The same bits at every level, and nothing is written past the blocks. */
void check_squares(const lsi_kernels *k)
{
    static const size_t more[] = {511, 512, 513, 1024, 1030, 5000};
    for (size_t l = 0; l < test_length_count + TEST_COUNT(more); l++) {
        const size_t n = l < test_length_count ? test_lengths[l]
                                               : more[l - test_length_count];
        const size_t blocks = (n + LSI_SQUARES_BLOCK - 1) / LSI_SQUARES_BLOCK;
        const float *a = random_floats(n, -1e3, 1e3);
        double *got = guarded(blocks * sizeof(double), 0);
        double *want = guarded(blocks * sizeof(double), 0);
        k->squares(got, a, n);
        reference()->squares(want, a, n);
        for (size_t b = 0; b < blocks; b++)
            expect_near(got[b], want[b], 0, "squares", b);
        expect_squares(got, a, n);
        release_all();
    }
}
