/* Conversion between all types, and images to f32. */
#include <math.h>
#include <stdio.h>

#include "harness.h"
#include "numbers.h"
#include "testing.h"

/* Values at and between the limits and ties of all types. */
static void fill_numbers(void *array, ls_dtype dtype, size_t n)
{
    static const long double special[] = {0,
                                          -0.0L,
                                          1,
                                          -1,
                                          127,
                                          128,
                                          -129,
                                          255,
                                          256,
                                          65504,
                                          65519.9L,
                                          65520,
                                          1e38L,
                                          -1e300L,
                                          0.5L,
                                          -0.5L,
                                          2147483647,
                                          -2147483649.0L,
                                          4294967296.0L,
                                          9.3e18L,
                                          -9.3e18L,
                                          0x1p-24L,
                                          0x1p-25L,
                                          0x1.8p-25L,
                                          0x1p-133L,
                                          0x1.8p-134L,
                                          0x1p-149L,
                                          0x1p-150L,
                                          0x1.00000001p-25L,
                                          1.00390625L,
                                          1.00390625000001L,
                                          1.00048828125L,
                                          1.0004882812500001L,
                                          0x1.01p8L,
                                          0x7FFFFFBFFFFFFFFFp0L,
                                          0x8080000000000001p-1L,
                                          0x1.008000000000001p62L};
    for (size_t i = 0; i < n; i++) {
        const long double x = random_u64() % 2
                                  ? special[random_u64() % TEST_COUNT(special)]
                                  : (long double)random_between(-300, 300);
        put_number(array, dtype, i, x);
        if (is_float(dtype) && random_u64() % 16 == 0)
            put_number(array, dtype, i,
                       random_u64() % 2 ? NAN : (long double)-INFINITY);
        if (!is_float(dtype) && random_u64() % 4 == 0)
            put_wrapped(array, dtype, i, (int64_t)random_u64());
    }
}

static void expect_number(const void *got, const void *want, ls_dtype dtype,
                          size_t i, ls_dtype from)
{
    const size_t size = ls_dtype_size(dtype);
    const bool same = memcmp((const char *)got + i * size,
                             (const char *)want + i * size, size) == 0;
    const long double a = get_number(got, dtype, i);
    const long double b = get_number(want, dtype, i);
    if (!same && !(isnan(a) && isnan(b)))
        fail_msg("%s to %s, element %zu: %.20Lg, want %.20Lg",
                 ls_dtype_name(from), ls_dtype_name(dtype), i, a, b);
}

static void check_pair(const lsi_kernels *k, ls_dtype to, ls_dtype from,
                       size_t n)
{
    void *src = guarded(n * ls_dtype_size(from), ls_dtype_size(from));
    void *dst = guarded(n * ls_dtype_size(to), ls_dtype_size(to));
    void *want = guarded(n * ls_dtype_size(to), 0);
    fill_numbers(src, from, n);
    for (size_t i = 0; i < n; i++)
        if (is_float(from) || is_float(to))
            put_number(want, to, i, get_number(src, from, i));
        else
            put_wrapped(want, to, i, (int64_t)get_number(src, from, i));
    k->convert(dst, to, src, from, n);
    for (size_t i = 0; i < n; i++)
        expect_number(dst, want, to, i, from);
    release_all();
}

/* Every half there is, up to f32 and back. */
static void check_round_trip(const lsi_kernels *k, ls_dtype half)
{
    enum { ALL = 65536 };
    uint16_t *h = guarded(ALL * sizeof(uint16_t), 2);
    uint16_t *back = guarded(ALL * sizeof(uint16_t), 6);
    float *x = floats(ALL);
    for (size_t i = 0; i < ALL; i++)
        h[i] = (uint16_t)i;
    k->convert(x, LS_F32, h, half, ALL);
    k->convert(back, half, x, LS_F32, ALL);
    for (size_t i = 0; i < ALL; i++)
        expect_number(back, h, half, i, LS_F32);
    for (size_t i = 0; i < ALL; i++)
        if (!isnan(x[i]) && (long double)x[i] != get_number(h, half, i))
            fail_msg("%s %#zx to f32", ls_dtype_name(half), i);
    release_all();
}

void check_convert(const lsi_kernels *k)
{
    for (int to = 0; to < LS_DTYPE_COUNT; to++)
        for (int from = 0; from < LS_DTYPE_COUNT; from++)
            for (size_t l = 0; l < test_length_count; l++)
                check_pair(k, (ls_dtype)to, (ls_dtype)from, test_lengths[l]);
    check_round_trip(k, LS_F16);
    check_round_trip(k, LS_BF16);
}

void check_normalize_u8(const lsi_kernels *k)
{
    const float scale[3] = {0.0147F, 0.0153F, 0.0142F};
    const float shift[3] = {-1.9F, -1.8F, -1.6F};
    for (size_t l = 0; l < test_length_count; l++) {
        const size_t pixels = test_lengths[l];
        uint8_t *x = guarded(3 * pixels, 1 + l % 7);
        float *y = floats(3 * pixels), *want = floats(3 * pixels);
        for (size_t i = 0; i < 3 * pixels; i++) {
            x[i] = (uint8_t)random_u64();
            want[i] = fmaf(x[i], scale[i / pixels], shift[i / pixels]);
        }
        k->normalize_u8(y, x, pixels, scale, shift);
        expect_same(y, want, 3 * pixels, "normalize_u8");
        release_all();
    }
}
