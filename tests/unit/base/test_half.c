/*
 * Half conversions, against arithmetic in double that knows only the formats'
 * definitions: precision, smallest exponent, largest finite value.
 */
#include <math.h>

#include "base/half.h"
#include "base/rng.h"
#include "testing.h"

/* A binary format with `digits` significant bits, as in its definition. */
typedef struct format {
    const char *name;
    int digits, min_exponent; /* of the smallest normal, 2^min_exponent */
    double overflow;          /* from here on to infinity */
    uint16_t infinity;
    uint16_t (*from)(float);
    float (*to)(uint16_t);
} format;

static const format formats[] = {
    {"f16", 11, -14, 65520.0, 0x7c00, lsi_f16_from_f32, lsi_f16_to_f32},
    {"bf16", 8, -126, 0x1.ffp127, 0x7f80, lsi_bf16_from_f32, lsi_bf16_to_f32},
};

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* The value of finite bits: significand times a power of two. */
static double value_of(const format *f, uint16_t half)
{
    const int fraction_bits = f->digits - 1;
    const int fraction = half & ((1 << fraction_bits) - 1);
    const int exponent = (half & 0x7fff) >> fraction_bits;
    const double magnitude =
        exponent == 0 ? ldexp(fraction, f->min_exponent - fraction_bits)
                      : ldexp(fraction + (1 << fraction_bits),
                              exponent - 1 + f->min_exponent - fraction_bits);
    return half & 0x8000 ? -magnitude : magnitude;
}

/* `x` rounded to the format's grid at its magnitude; rint ties to even. */
static double rounded(const format *f, double x)
{
    if (x == 0)
        return x;
    const int exponent = ilogb(x);
    const int lowest =
        (exponent < f->min_exponent ? f->min_exponent : exponent) -
        (f->digits - 1);
    return ldexp(rint(ldexp(x, -lowest)), lowest);
}

static void check_from(const format *f, float x)
{
    const uint16_t got = f->from(x);
    const uint16_t sign = signbit(x) ? 0x8000 : 0;
    if (isnan(x)) {
        assert_true((got & 0x7fff) > f->infinity);
        assert_int_equal(got & 0x8000, sign);
        return;
    }
    if (fabs((double)x) >= f->overflow) {
        assert_int_equal(got, f->infinity | sign);
        return;
    }
    const double want = rounded(f, (double)x);
    if (value_of(f, got) != want || (got & 0x8000) != sign)
        fail_msg("%s of %a: %a instead of %a", f->name, (double)x,
                 value_of(f, got), want);
}

static void all_bits_convert_exactly(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(formats); i++) {
        const format *f = &formats[i];
        for (uint32_t half = 0; half <= 0xffff; half++) {
            const float x = f->to((uint16_t)half);
            if ((half & 0x7fff) > f->infinity)
                assert_true(isnan(x));
            else if ((half & 0x7fff) == f->infinity)
                assert_true(isinf(x));
            else
                assert_true((double)x == value_of(f, (uint16_t)half));
            assert_int_equal(signbit(x) != 0, half >> 15);
        }
    }
}

/* Signalling NaNs come back quiet: with the top fraction bit set. */
static void all_bits_come_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(formats); i++) {
        const format *f = &formats[i];
        const uint16_t quiet = (uint16_t)(1U << (f->digits - 2));
        for (uint32_t half = 0; half <= 0xffff; half++) {
            const bool nan = (half & 0x7fff) > f->infinity;
            const uint16_t want = (uint16_t)(nan ? half | quiet : half);
            assert_int_equal(f->from(f->to((uint16_t)half)), want);
        }
    }
}

/* Every half value, every tie between two, and the neighbouring floats. */
static void ties_and_their_neighbours(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(formats); i++) {
        const format *f = &formats[i];
        for (uint16_t half = 0; half < f->infinity; half++) {
            const float here = f->to(half);
            const float next = half + 1 == f->infinity
                                   ? (float)f->overflow
                                   : f->to((uint16_t)(half + 1));
            const float tie = here + (next - here) / 2;
            for (int sign = -1; sign <= 1; sign += 2) {
                check_from(f, (float)sign * here);
                check_from(f, (float)sign * nextafterf(tie, 0.0F));
                check_from(f, (float)sign * tie);
                check_from(f, (float)sign * nextafterf(tie, INFINITY));
            }
        }
    }
}

static void random_floats(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 500000; i++) {
        const float x = float_of(lsi_rng_u32((lsi_rng_key){1, 1}, 0, i));
        for (size_t k = 0; k < TEST_COUNT(formats); k++)
            check_from(&formats[k], x);
    }
}

static void extremes(void **state)
{
    (void)state;
    static const uint32_t cases[] = {
        0x00000000, 0x80000000, 0x00000001, 0x807fffff, 0x7f7fffff, 0xff7fffff,
        0x7f800000, 0xff800000, 0x7f800001, 0xff800001, 0x7fffffff, 0x7fc00000,
        0x477fefff, 0x477ff000, 0x33000000, 0x33000001, 0x7f7f7fff, 0x7f7f8000,
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++)
        for (size_t k = 0; k < TEST_COUNT(formats); k++)
            check_from(&formats[k], float_of(cases[i]));
}

static void known_values(void **state)
{
    (void)state;
    assert_int_equal(lsi_f16_from_f32(1.0F), 0x3c00);
    assert_int_equal(lsi_f16_from_f32(-2.0F), 0xc000);
    assert_int_equal(lsi_f16_from_f32(65504.0F), 0x7bff);
    assert_int_equal(lsi_f16_from_f32(65520.0F), 0x7c00);
    assert_int_equal(lsi_f16_from_f32(0x1p-24F), 0x0001);
    assert_int_equal(lsi_f16_from_f32(0x1p-25F), 0x0000);
    assert_int_equal(lsi_bf16_from_f32(1.0F), 0x3f80);
    assert_int_equal(lsi_bf16_from_f32(3.14159274F), 0x4049);
    assert_int_equal(bits_of(lsi_bf16_to_f32(0x4049)), 0x40490000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_values),
        cmocka_unit_test(all_bits_convert_exactly),
        cmocka_unit_test(all_bits_come_back),
        cmocka_unit_test(ties_and_their_neighbours),
        cmocka_unit_test(random_floats),
        cmocka_unit_test(extremes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
