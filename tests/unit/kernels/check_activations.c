/*
 * Activations. With u = HALF_ULP: e^-z has a relative error of 4 u and |z|
 * times the relative error of z; the sigmoid adds two roundings, what follows
 * a few. Where a sigmoid is below 2^-127 its absolute value counts.
 */
#include <math.h>

#include "array/kernels/activations.h"
#include "harness.h"
#include "testing.h"

static const double ranges[] = {1, 12, 120};

/* Of any product with a vanishing sigmoid in it. */
static const double vanishing = 0x1p-100;

static double sigmoid_of(double z)
{
    return 1.0 / (1.0 + exp(-z));
}

/* ---- swiglu ---------------------------------------------------------------
 */

static void check_swiglu_n(const lsi_kernels *k, size_t n, double range)
{
    const float *a = random_floats(n, -range, range);
    const float *b = random_floats(n, -2, 2);
    float *y = floats(n), *in_place = copy_floats(a, n);
    k->swiglu(y, a, b, n);
    k->swiglu(in_place, in_place, b, n);
    for (size_t i = 0; i < n; i++) {
        const double want = a[i] * sigmoid_of(a[i]) * b[i];
        const double bound = 10 * HALF_ULP * fabs(want) + vanishing;
        expect_near(y[i], want, bound, "swiglu", i);
    }
    expect_same(in_place, y, n, "swiglu in place");
}

void check_swiglu(const lsi_kernels *k)
{
    for (size_t r = 0; r < TEST_COUNT(ranges); r++)
        for (size_t l = 0; l < test_length_count; l++) {
            check_swiglu_n(k, test_lengths[l], ranges[r]);
            release_all();
        }
}

static void check_swiglu_backward_n(const lsi_kernels *k, size_t n,
                                    double range)
{
    const float *a = random_floats(n, -range, range);
    const float *b = random_floats(n, -2, 2), *dy = random_floats(n, -2, 2);
    float *da = floats(n), *db = floats(n);
    k->swiglu_backward(da, db, dy, a, b, n);
    for (size_t i = 0; i < n; i++) {
        const double s = sigmoid_of(a[i]), rest = sigmoid_of(-a[i]);
        const double g = (double)dy[i] * b[i] * s;
        const double size = fabs(g) * (1 + fabs(a[i] * rest));
        const double want = (double)dy[i] * a[i] * s;
        expect_near(da[i], g * (1 + a[i] * rest),
                    16 * HALF_ULP * size + vanishing, "swiglu_backward, da", i);
        expect_near(db[i], want, 10 * HALF_ULP * fabs(want) + vanishing,
                    "swiglu_backward, db", i);
    }
}

void check_swiglu_backward(const lsi_kernels *k)
{
    for (size_t r = 0; r < TEST_COUNT(ranges); r++)
        for (size_t l = 0; l < test_length_count; l++) {
            check_swiglu_backward_n(k, test_lengths[l], ranges[r]);
            release_all();
        }
}

/* ---- gelu -----------------------------------------------------------------
 */

/* By its definition, with tanh. */
static double gelu_of(double x)
{
    const double pi = 3.14159265358979323846;
    return 0.5 * x * (1.0 + tanh(sqrt(2.0 / pi) * (x + 0.044715 * x * x * x)));
}

static double argument_of(double x)
{
    return LSI_GELU_LINEAR * x + LSI_GELU_CUBIC * x * x * x;
}

static void check_gelu_n(const lsi_kernels *k, size_t n, double range)
{
    const float *a = random_floats(n, -range, range);
    float *y = floats(n), *in_place = copy_floats(a, n);
    k->gelu(y, a, n);
    k->gelu(in_place, in_place, n);
    for (size_t i = 0; i < n; i++) {
        const double z = argument_of(a[i]);
        const double want = a[i] * sigmoid_of(z);
        const double bound = HALF_ULP * (8 + 5 * fabs(z)) * fabs(want);
        expect_near(y[i], want, bound + vanishing, "gelu", i);
        expect_near(want, gelu_of(a[i]), 1e-15 * fabs(a[i]), "its tanh form",
                    i);
    }
    expect_same(in_place, y, n, "gelu in place");
}

void check_gelu(const lsi_kernels *k)
{
    for (size_t r = 0; r < TEST_COUNT(ranges); r++)
        for (size_t l = 0; l < test_length_count; l++) {
            check_gelu_n(k, test_lengths[l], ranges[r]);
            release_all();
        }
}

static void check_gelu_backward_n(const lsi_kernels *k, size_t n, double range)
{
    const float *a = random_floats(n, -range, range);
    const float *dy = random_floats(n, -2, 2);
    float *dx = floats(n), *sum = random_floats(n, -2, 2);
    const float *old = copy_floats(sum, n);
    k->gelu_backward(dx, dy, a, n, false);
    k->gelu_backward(sum, dy, a, n, true);
    for (size_t i = 0; i < n; i++) {
        const double x = a[i], z = argument_of(x);
        const double s = sigmoid_of(z), rest = sigmoid_of(-z);
        const double slope = LSI_GELU_LINEAR + 3 * LSI_GELU_CUBIC * x * x;
        const double want = dy[i] * s * (1 + x * rest * slope);
        const double size = fabs(dy[i] * s) * (1 + fabs(x * rest * slope));
        const double bound = HALF_ULP * (14 + 10 * fabs(z)) * size + vanishing;
        expect_near(dx[i], want, bound, "gelu_backward", i);
        expect_near(sum[i], old[i] + want,
                    bound + HALF_ULP * (fabs((double)old[i]) + fabs(want)),
                    "gelu_backward, accumulating", i);
    }
    float *in_place = copy_floats(dy, n);
    k->gelu_backward(in_place, in_place, a, n, false);
    expect_same(in_place, dx, n, "gelu_backward in place");
}

void check_gelu_backward(const lsi_kernels *k)
{
    for (size_t r = 0; r < TEST_COUNT(ranges); r++)
        for (size_t l = 0; l < test_length_count; l++) {
            check_gelu_backward_n(k, test_lengths[l], ranges[r]);
            release_all();
        }
}
