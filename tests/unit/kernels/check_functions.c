/*
 * Functions of one argument. With u = HALF_ULP: e^x and ln x have a relative
 * error of 4 u, those that are made of them a few roundings more.
 */
#include <math.h>

#include "harness.h"
#include "testing.h"

typedef void function_fn(float *y, const float *a, size_t n);

static double sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

/* Arguments from low to high, of either side of 0 where that is between. */
static void check_range(function_fn *fn, double (*exact)(double), double low,
                        double high, double ulps, const char *name)
{
    for (size_t l = 0; l < test_length_count; l++) {
        const size_t n = test_lengths[l];
        float *a = random_floats(n, low, high), *y = floats(n);
        fn(y, a, n);
        for (size_t i = 0; i < n; i++) {
            const double want = exact((double)a[i]);
            expect_near((double)y[i], want,
                        ulps * HALF_ULP * fabs(want) + 0x1p-126, name, i);
        }
        fn(a, a, n);
        expect_same(a, y, n, name);
        release_all();
    }
}

/* The C library's values, in f32. */
static void check_special(function_fn *fn, double (*exact)(double),
                          const char *name)
{
    const float special[] = {0.0F,    -0.0F,     1.0F,    INFINITY, -INFINITY,
                             NAN,     -1.0F,     1000.0F, -1000.0F, 0x1p-149F,
                             1e-40F,  3.4e38F,   88.7F,   -87.4F,   -100.0F,
                             -104.0F, 0x1p-126F, 1e-30F};
    enum { N = TEST_COUNT(special) };
    float y[N];
    fn(y, special, N);
    for (size_t i = 0; i < N; i++) {
        const double want = exact((double)special[i]);
        const double bound = 8 * HALF_ULP * fabs(want) + 0x1p-126;
        expect_near((double)y[i], (double)(float)want, bound, name, i);
    }
}

void check_exp(const lsi_kernels *k)
{
    check_range(k->exp, exp, -2, 2, 5, "exp");
    check_range(k->exp, exp, -87, 88, 5, "exp");
    check_special(k->exp, exp, "exp of special values");
    float y[2];
    k->exp(y, (const float[]){-95.0F, -103.0F}, 2); /* subnormal */
    expect_near((double)y[0], exp(-95.0), 0x1p-149, "exp", 0);
    expect_near((double)y[1], exp(-103.0), 0x1p-149, "exp", 1);
}

void check_log(const lsi_kernels *k)
{
    check_range(k->log, log, 0.5, 2, 5, "log");
    check_range(k->log, log, 1e-3, 1e3, 5, "log");
    check_range(k->log, log, 0, 3e38, 5, "log");
    check_range(k->log, log, 0, 1e-37, 5, "log");
    check_special(k->log, log, "log of special values");
}

void check_sqrt(const lsi_kernels *k)
{
    check_range(k->sqrt, sqrt, 0, 100, 1, "sqrt");
    check_special(k->sqrt, sqrt, "sqrt of special values");
}

void check_tanh(const lsi_kernels *k)
{
    check_range(k->tanh, tanh, -1e-3, 1e-3, 6, "tanh");
    check_range(k->tanh, tanh, -1, 1, 6, "tanh");
    check_range(k->tanh, tanh, -20, 20, 6, "tanh");
    check_special(k->tanh, tanh, "tanh of special values");
}

void check_sigmoid(const lsi_kernels *k)
{
    check_range(k->sigmoid, sigmoid, -5, 5, 8, "sigmoid");
    check_range(k->sigmoid, sigmoid, -80, 80, 8, "sigmoid");
    float y[3];
    k->sigmoid(y, (const float[]){1000.0F, -1000.0F, NAN}, 3);
    assert_true(y[0] == 1.0F && y[1] >= 0.0F && y[1] <= 0x1p-126F);
    assert_true(isnan(y[2]));
}

/* ---- gradients ----------------------------------------------------------- */

typedef void backward_fn(float *dx, const float *dy, const float *y, size_t n);

/* `slope` may cancel, to less than 1. */
static void check_slope(backward_fn *fn, double (*slope)(double), double low,
                        const char *name)
{
    for (size_t l = 0; l < test_length_count; l++) {
        const size_t n = test_lengths[l];
        const float *y = random_floats(n, low, 1);
        float *dy = random_floats(n, -2, 2), *dx = floats(n);
        fn(dx, dy, y, n);
        for (size_t i = 0; i < n; i++)
            expect_near((double)dx[i], (double)dy[i] * slope((double)y[i]),
                        3 * HALF_ULP * fabs((double)dy[i]), name, i);
        fn(dy, dy, y, n);
        expect_same(dy, dx, n, name);
        release_all();
    }
}

static double tanh_slope(double y)
{
    return 1.0 - y * y;
}

static double sigmoid_slope(double y)
{
    return y * (1.0 - y);
}

void check_tanh_backward(const lsi_kernels *k)
{
    check_slope(k->tanh_backward, tanh_slope, -1, "tanh_backward");
}

void check_sigmoid_backward(const lsi_kernels *k)
{
    check_slope(k->sigmoid_backward, sigmoid_slope, 0, "sigmoid_backward");
}
