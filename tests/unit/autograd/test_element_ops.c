/*
 * Operations on each element, apart from their gradients at ordinary places:
 * kinks, arguments far from 0, numbers that are not finite, and what is
 * refused.
 */
#include <math.h>

#include "mixed.h"
#include "ops_fixture.h"
#include "testing.h"

typedef ls_tensor *unary(ls_tape *, ls_tensor *);

static ls_tensor *tensor_of(const float *values, int64_t n)
{
    ls_tensor *x = vector(n);
    memcpy(tensor_data(x), values, (size_t)n * sizeof *values);
    return x;
}

/* The gradient of the sum of y with respect to x, which is watched. */
static const float *gradient(ls_tensor *x, ls_tensor *y)
{
    assert_non_null(y);
    assert_ok(ls_backward(tape, ls_sum(tape, y), 1.0));
    return tensor_data(ls_tape_grad(tape, x));
}

/* ---- kinks --------------------------------------------------------------- */

static void size_has_no_slope_at_zero(void **state)
{
    (void)state;
    const float values[] = {-2, -0.0F, 0, 3, NAN, -INFINITY};
    ls_tensor *x = tensor_of(values, TEST_COUNT(values));
    assert_ok(ls_tape_watch(tape, x));
    ls_tensor *result = ls_abs(tape, x);
    const float *dx = gradient(x, result), *y = tensor_data(result);
    const float slopes[] = {-1, 0, 0, 1, NAN, -1};
    for (size_t i = 0; i < TEST_COUNT(values); i++) {
        assert_true(isnan(slopes[i]) ? isnan(dx[i]) : dx[i] == slopes[i]);
        assert_true(isnan(values[i]) ? isnan(y[i]) : !signbit(y[i]));
    }
}

/* A bound itself passes the gradient on. */
static void bounds_of_clamp(void **state)
{
    (void)state;
    const float values[] = {-1.5F, -1, 0, 2, 2.5F, NAN, INFINITY};
    const float want[] = {-1, -1, 0, 2, 2, NAN, 2};
    const float slopes[] = {0, 1, 1, 1, 0, 0, 0};
    ls_tensor *x = tensor_of(values, TEST_COUNT(values));
    assert_ok(ls_tape_watch(tape, x));
    ls_tensor *result = ls_clamp(tape, x, -1, 2);
    const float *dx = gradient(x, result), *y = tensor_data(result);
    for (size_t i = 0; i < TEST_COUNT(values); i++) {
        assert_true(isnan(want[i]) ? isnan(y[i]) : y[i] == want[i]);
        assert_true(dx[i] == slopes[i]);
    }
}

static void one_bound_is_enough(void **state)
{
    (void)state;
    const float values[] = {-3, 3};
    const float *y =
        tensor_data(ls_clamp(tape, tensor_of(values, 2), -INFINITY, INFINITY));
    assert_true(y[0] == -3 && y[1] == 3);
    y = tensor_data(ls_clamp(tape, tensor_of(values, 2), 0, INFINITY));
    assert_true(y[0] == 0 && y[1] == 3);
    assert_null(ls_clamp(tape, tensor_of(values, 2), 2, 1));
    assert_error(ls_backward(tape, NULL, 1.0), LS_ERR_ARGUMENT,
                 "clamp: min is 2 and max is 1; min must not be above");
    ls_tape_reset(tape);
    assert_null(ls_clamp(tape, tensor_of(values, 2), NAN, 1));
    assert_error(ls_backward(tape, NULL, 1.0), LS_ERR_ARGUMENT,
                 "min is nan and max is 1");
}

/* Values and slopes at places where a formula alone goes wrong. */
static void check_power(double exponent, float at, float want, float slope)
{
    ls_tensor *x = tensor_of(&at, 1);
    assert_ok(ls_tape_watch(tape, x));
    ls_tensor *result = ls_pow(tape, x, exponent);
    const float *dx = gradient(x, result), *y = tensor_data(result);
    assert_true(isnan(want) ? isnan(y[0]) : y[0] == want);
    assert_true(isnan(slope) ? isnan(dx[0]) : dx[0] == slope);
    ls_tape_reset(tape);
}

static void powers_at_the_edge(void **state)
{
    (void)state;
    check_power(0.0, 0, 1, 0);
    check_power(0.0, INFINITY, 1, 0);
    check_power(1.0, 0, 0, 1);
    check_power(2.0, 0, 0, 0);
    check_power(0.5, 0, 0, INFINITY);
    check_power(-1.0, 0, INFINITY, -INFINITY);
    check_power(-2.0, -4, 0x1p-4F, 0x1p-5F);
    check_power(3.0, -2, -8, 12);
    check_power(0.5, -1, NAN, NAN);
}

/* ---- activations --------------------------------------------------------- */

typedef struct activation {
    unary *run;
    double (*exact)(double), (*slope)(double);
} activation;

static double silu(double x)
{
    return x / (1.0 + exp(-x));
}

static double silu_slope(double x)
{
    const double s = 1.0 / (1.0 + exp(-x));
    return s * (1.0 + x / (1.0 + exp(x)));
}

static double share(double x)
{
    return 0.5 * erfc(-x * sqrt(0.5));
}

static double gelu_erf(double x)
{
    return x * share(x);
}

static double gelu_erf_slope(double x)
{
    return share(x) + x * exp(-0.5 * x * x) * 0.39894228040143267794;
}

/*
 * Results are within some units in the last place, times 1 + x^2 / 2 for what
 * rounding the argument of an exponential does. Slopes cross 0, so there the
 * bound is absolute.
 */
static void check_activation(const activation *a)
{
    enum { POINTS = 2001 };
    float values[POINTS];
    for (int i = 0; i < POINTS; i++)
        values[i] = (float)(i - POINTS / 2) * 0.012F;
    ls_tensor *x = tensor_of(values, POINTS);
    assert_ok(ls_tape_watch(tape, x));
    ls_tensor *result = a->run(tape, x);
    const float *dx = gradient(x, result), *y = tensor_data(result);
    for (int i = 0; i < POINTS; i++) {
        const double at = values[i], want = a->exact(at);
        const double unit = (1.0 + 0.5 * at * at) * 0x1p-23;
        assert_true(fabs(y[i] - want) <= 4.0 * unit * fabs(want) + 0x1p-126);
        assert_true(fabs(dx[i] - a->slope(at)) <= 8.0 * 0x1p-23);
    }
    ls_tape_reset(tape);
}

static void activations_far_from_zero(void **state)
{
    (void)state;
    const activation all[] = {{ls_silu, silu, silu_slope},
                              {ls_gelu_erf, gelu_erf, gelu_erf_slope}};
    for (size_t i = 0; i < TEST_COUNT(all); i++)
        check_activation(&all[i]);
}

/* The bound on their difference is that of autograd.h. */
static void gelus_are_near_each_other(void **state)
{
    (void)state;
    ls_tensor *x = vector(20000);
    float most = 0, *values = tensor_data(x);
    for (int i = 0; i < 20000; i++)
        values[i] *= 8;
    const float *exact = tensor_data(ls_gelu_erf(tape, x));
    const float *near = tensor_data(ls_gelu(tape, x));
    for (int i = 0; i < 20000; i++)
        most = fmaxf(most, fabsf(exact[i] - near[i]));
    assert_true(most > 4e-4F && most <= 5e-4F);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(size_has_no_slope_at_zero), CASE(bounds_of_clamp),
        CASE(one_bound_is_enough),       CASE(powers_at_the_edge),
        CASE(activations_far_from_zero), CASE(gelus_are_near_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
