/*
 * Functions of base/math.h, compared with exact vectors, with the C library's
 * long double and with its special values. Their bits are compared with a hash,
 * because every compiler and processor must give the same.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/math.h"
#include "base/rng.h"
#include "math_vectors.h"
#include "testing.h"

/* In units of the last place of `want`, or of the smallest normal number. */
static double error_of(double got, long double want)
{
    const double size = fabs((double)want);
    if (!isfinite(size))
        return got == (double)want ? 0.0 : INFINITY;
    int exponent;
    (void)frexp(size < DBL_MIN ? DBL_MIN : size, &exponent);
    return (double)(fabsl((long double)got - want) /
                    ldexpl(1.0L, exponent - 53));
}

typedef struct function {
    const char *name;
    double (*of)(double x);
    long double (*exact)(long double x);
    double bound, low, high; /* math.h's bound, and arguments to draw */
} function;

static const function functions[] = {
    {"exp", lsi_exp, expl, 0.52, -708, 709.7},
    {"exp", lsi_exp, expl, 0.76, -746, -700},
    {"exp", lsi_exp, expl, 0.52, -1, 1},
    {"log", lsi_ln, logl, 0.52, 0, 10},
    {"log", lsi_ln, logl, 0.52, 0.98, 1.02},
    {"log", lsi_ln, logl, 0.52, 0, 1e300},
    {"log1p", lsi_log1p, log1pl, 0.7, -1, 1},
    {"log1p", lsi_log1p, log1pl, 0.7, -1e-15, 1e-15},
    {"tanh", lsi_tanh, tanhl, 4, -22, 22},
    {"tanh", lsi_tanh, tanhl, 4, -1e-3, 1e-3},
    {"sin", lsi_sin, sinl, 0.85, -7, 7},
    {"sin", lsi_sin, sinl, 0.85, 0, 0x1p31},
    {"cos", lsi_cos, cosl, 0.85, -7, 7},
    {"cos", lsi_cos, cosl, 0.85, 0, 0x1p31},
};

static double drawn(uint64_t i, double low, double high)
{
    return low + (high - low) * lsi_rng_uniform((lsi_rng_key){36, 1}, 0, i);
}

static double of_vector(const char *name, double x, double y, double *bound)
{
    for (size_t i = 0; i < TEST_COUNT(functions); i++)
        if (strcmp(functions[i].name, name) == 0) {
            *bound = fmax(functions[i].bound, x < -708 ? 0.76 : 0);
            return functions[i].of(x);
        }
    *bound = 0.53;
    return lsi_pow(x, y);
}

static void vectors(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double x, y, value, rest;
    } rows[] = {
#define X(name, x, y, value, rest) {#name, x, y, value, rest},
        VECTORS(X)
#undef X
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        double bound;
        const double got =
            of_vector(rows[i].name, rows[i].x, rows[i].y, &bound);
        int exponent;
        (void)frexp(fmax(fabs(rows[i].value), DBL_MIN), &exponent);
        const double error = (got - rows[i].value) - rows[i].rest;
        if (!(fabs(error) <= bound * ldexp(1.0, exponent - 53)))
            fail_msg("%s(%a, %a) is %a, and %a is right", rows[i].name,
                     rows[i].x, rows[i].y, got, rows[i].value);
    }
}

/* The bits of long double beyond double's leave room for its own error. */
static void against_long_double(void **state)
{
    (void)state;
    _Static_assert(LDBL_MANT_DIG >= 64,
                   "long double is too short for a reference");
    for (size_t f = 0; f < TEST_COUNT(functions); f++)
        for (uint64_t i = 0; i < 50000; i++) {
            const function *const g = &functions[f];
            const double x = drawn(i, g->low, g->high);
            const double error = error_of(g->of(x), g->exact((long double)x));
            if (!(error <= g->bound))
                fail_msg("%s(%a): error %g, bound %g", g->name, x, error,
                         g->bound);
        }
    for (uint64_t i = 0; i < 50000; i++) {
        const float x = (float)drawn(i, 0, 4), y = (float)drawn(i + 1, -9, 9);
        const long double want = powl((long double)x, (long double)y);
        const float got = lsi_powf(x, y), next = nextafterf(got, INFINITY);
        if (isnormal(got))
            assert_true(fabsl((long double)got - want) <=
                        0.501L * (long double)(next - got));
        const double beta = drawn(i, 0.5, 1), steps = floor(drawn(i, 1, 1000));
        assert_true(error_of(lsi_pow(beta, steps),
                             powl((long double)beta, (long double)steps)) <=
                    0.53);
    }
}

static void normal_share(void **state)
{
    (void)state;
    const double root_2 = 1.41421356237309504880, peak = 0.398942280401432678;
    for (uint64_t i = 0; i < 50000; i++) {
        const double a = (double)(float)drawn(i, -14, 14);
        const double want = 0.5 * erfc(-a / root_2);
        double density;
        /* erfc's argument is rounded: a^2 2^-53 of the result. */
        assert_true(fabs(lsi_normal_share(a, &density) - want) <=
                    (0x1p-37 + a * a * 0x1p-52) * want);
        assert_true(fabs(density - peak * exp(-0.5 * a * a)) <= 0x1p-50 * peak);
    }
    double density;
    assert_true(lsi_normal_share(-INFINITY, &density) == 0.0);
    assert_true(lsi_normal_share(INFINITY, &density) == 1.0);
    assert_true(density == 0.0);
    assert_true(isnan(lsi_normal_share(NAN, &density)));
}

/* Equal numbers with equal signs, or both NaN. */
static void same(double got, double want)
{
    if (isnan(want) ? !isnan(got)
                    : got != want || !signbit(got) != !signbit(want))
        fail_msg("%a, and %a is right", got, want);
}

/* C17, Annex F, which the C library follows. */
static void special_values(void **state)
{
    (void)state;
    static const double values[] = {
        0.0,   -0.0,     1.0,       -1.0,    2.0,    -2.0,         3.0,
        -3.0,  0.5,      -0.5,      1.5,     -1.5,   0x1p53,       -0x1p53,
        1e300, -1e300,   1e-300,    -1e-300, 1e-310, -0x1p-1074,   0x1p-1074,
        NAN,   INFINITY, -INFINITY, 710.0,   -746.0, 0x1p53 - 1.0, 1024.0};
    for (size_t i = 0; i < TEST_COUNT(values); i++) {
        const double x = values[i];
        for (size_t f = 0; f < TEST_COUNT(functions); f++) {
            const double want = (double)functions[f].exact((long double)x);
            const double got = functions[f].of(x);
            if (isnan(want) || want == 0.0 || isinf(want) || want == 1.0)
                same(got, want);
            else
                assert_true(error_of(got, (long double)want) <= 4.5);
        }
        for (size_t j = 0; j < TEST_COUNT(values); j++) {
            const double want = pow(x, values[j]);
            const double got = lsi_pow(x, values[j]);
            if (isnan(want) || want == 0.0 || isinf(want))
                same(got, want);
            else
                assert_true(error_of(got, (long double)want) <= 1.5);
            const float single = (float)x, power = (float)values[j];
            const float close = powf(single, power);
            if (isnan(close) || close == 0.0F || isinf(close))
                same((double)lsi_powf(single, power), (double)close);
        }
    }
}

/*
 * The hash was taken from gcc 12 on x86-64. Whoever changes a function on
 * purpose changes the hash, and what trains with it: state so in the changelog.
 */
static void bits_are_fixed(void **state)
{
    (void)state;
    uint64_t hash = LSI_HASH_START;
    for (uint64_t i = 0; i < 20000; i++) {
        const double x = drawn(i, -30, 30), y = drawn(i + 1, -8, 8);
        const double large = drawn(i, 0, 0x1p40);
        double s, c;
        lsi_sincos(large, &s, &c);
        assert_true(s == lsi_sin(large) && c == lsi_cos(large));
        double all[] = {lsi_exp(x),
                        lsi_exp(24 * x),
                        lsi_ln(fabs(x)),
                        lsi_ln(large),
                        lsi_log1p(fabs(y)),
                        lsi_tanh(y),
                        lsi_sin(x),
                        lsi_sin(large),
                        lsi_cos(x),
                        lsi_cos(large),
                        lsi_pow(fabs(x), y),
                        (double)lsi_powf((float)fabs(x), (float)y),
                        0.0,
                        0.0};
        all[12] = lsi_normal_share((double)(float)y, &all[13]);
        hash = lsi_hash(hash, all, sizeof(all));
    }
    assert_int_equal(hash, UINT64_C(0xffadea633a0c08db));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors),        cmocka_unit_test(against_long_double),
        cmocka_unit_test(normal_share),   cmocka_unit_test(special_values),
        cmocka_unit_test(bits_are_fixed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
