/* Element-wise kernels: the same bits at every level. */
#include <math.h>

#include "harness.h"
#include "testing.h"

typedef void binary_fn(float *y, const float *a, const float *b, size_t n);

/*
 * The f32 nearest to a double result that is exact or rounded once more at 53
 * bits, which for these operations gives the same.
 */
typedef double exact_fn(double a, double b);

static double exact_add(double a, double b)
{
    return a + b;
}

static double exact_sub(double a, double b)
{
    return a - b;
}

static double exact_mul(double a, double b)
{
    return a * b;
}

static double exact_div(double a, double b)
{
    return a / b;
}

static void check_binary(binary_fn *fn, exact_fn *exact, const char *name)
{
    for (size_t l = 0; l < test_length_count; l++)
        for (int extreme = 0; extreme < 2; extreme++) {
            const size_t n = test_lengths[l];
            float *a = extreme ? extreme_floats(n) : random_floats(n, -2, 2);
            float *b = extreme ? extreme_floats(n) : random_floats(n, -2, 2);
            float *y = floats(n), *want = floats(n);
            for (size_t i = 0; i < n; i++)
                want[i] = (float)exact((double)a[i], (double)b[i]);
            fn(y, a, b, n);
            expect_same(y, want, n, name);
            float *in_place = copy_floats(a, n);
            fn(in_place, in_place, b, n);
            expect_same(in_place, want, n, name);
            in_place = copy_floats(b, n);
            fn(in_place, a, in_place, n);
            expect_same(in_place, want, n, name);
            release_all();
        }
}

void check_add(const lsi_kernels *k)
{
    check_binary(k->add, exact_add, "add");
}

void check_sub(const lsi_kernels *k)
{
    check_binary(k->sub, exact_sub, "sub");
}

void check_mul(const lsi_kernels *k)
{
    check_binary(k->mul, exact_mul, "mul");
}

static double exact_larger(double a, double b)
{
    return a > b || isnan(a) ? a : b;
}

void check_larger(const lsi_kernels *k)
{
    check_binary(k->larger, exact_larger, "larger");
}

void check_div(const lsi_kernels *k)
{
    check_binary(k->div, exact_div, "div");
}

typedef void number_fn(float *y, const float *a, float b, size_t n);

static void check_number(number_fn *fn, exact_fn *exact, bool first,
                         const char *name)
{
    static const float numbers[] = {0.0F, -1.5F, 0x1p-140F, INFINITY, 3.25F};
    for (size_t l = 0; l < test_length_count; l++) {
        const size_t n = test_lengths[l];
        const double b = (double)numbers[l % TEST_COUNT(numbers)];
        float *a = extreme_floats(n), *y = floats(n), *want = floats(n);
        for (size_t i = 0; i < n; i++) {
            const double x = (double)a[i];
            want[i] = (float)(first ? exact(b, x) : exact(x, b));
        }
        fn(y, a, (float)b, n);
        expect_same(y, want, n, name);
        fn(a, a, (float)b, n);
        expect_same(a, want, n, name);
        release_all();
    }
}

void check_add_number(const lsi_kernels *k)
{
    check_number(k->add_number, exact_add, false, "add_number");
}

void check_number_minus(const lsi_kernels *k)
{
    check_number(k->number_minus, exact_sub, true, "number_minus");
}

void check_over_number(const lsi_kernels *k)
{
    check_number(k->over_number, exact_div, false, "over_number");
}

void check_number_over(const lsi_kernels *k)
{
    check_number(k->number_over, exact_div, true, "number_over");
}

void check_fill(const lsi_kernels *k)
{
    for (size_t l = 0; l < test_length_count; l++) {
        const size_t n = test_lengths[l];
        float *y = floats(n);
        k->fill(y, -2.5F, n);
        for (size_t i = 0; i < n; i++)
            assert_true(y[i] == -2.5F);
        release_all();
    }
}

/* Any bits, and rows with gaps; what lies between those of y stays. */
static void check_transpose_of(const lsi_kernels *k, size_t rows, size_t cols)
{
    const size_t ldx = cols + 3, ldy = rows + 5;
    uint32_t *x = guarded(rows * ldx * 4, 4), *y = guarded(cols * ldy * 4, 8);
    for (size_t i = 0; i < rows * ldx; i++)
        x[i] = (uint32_t)random_u64();
    for (size_t i = 0; i < cols * ldy; i++)
        y[i] = 77;
    k->transpose((float *)(void *)y, ldy, (const float *)(const void *)x, ldx,
                 rows, cols);
    for (size_t c = 0; c < cols; c++)
        for (size_t r = 0; r < ldy; r++)
            assert_int_equal(y[c * ldy + r], r < rows ? x[r * ldx + c] : 77);
    release_all();
}

void check_transpose(const lsi_kernels *k)
{
    static const size_t sizes[] = {0, 1, 3, 4, 8, 9, 16, 17, 33, 64};
    for (size_t r = 0; r < TEST_COUNT(sizes); r++)
        for (size_t c = 0; c < TEST_COUNT(sizes); c++)
            check_transpose_of(k, sizes[r], sizes[c]);
}

void check_scale(const lsi_kernels *k)
{
    for (size_t l = 0; l < test_length_count; l++) {
        const size_t n = test_lengths[l];
        float *a = extreme_floats(n), *y = floats(n), *want = floats(n);
        const float factor = (float)random_between(-3, 3);
        for (size_t i = 0; i < n; i++)
            want[i] = (float)((double)a[i] * factor);
        k->scale(y, a, factor, n);
        expect_same(y, want, n, "scale");
        k->scale(a, a, factor, n);
        expect_same(a, want, n, "scale in place");
        release_all();
    }
}

/* Products of f32 are exact in double, and so are these sums with integers. */
static void axpy_rounds_once(const lsi_kernels *k)
{
    float y = -1.0F;
    const float a = 1.0F + 0x1p-23F;
    k->axpy(&y, &a, 1.0F - 0x1p-23F, 1);
    assert_true(y == -0x1p-46F);
}

void check_axpy(const lsi_kernels *k)
{
    axpy_rounds_once(k);
    for (size_t l = 0; l < test_length_count; l++) {
        const size_t n = test_lengths[l];
        float *a = extreme_floats(n), *y = extreme_floats(n);
        float *want = copy_floats(y, n);
        const float factor = (float)random_between(-3, 3);
        for (size_t i = 0; i < n; i++)
            want[i] = fmaf(a[i], factor, want[i]);
        k->axpy(y, a, factor, n);
        expect_same(y, want, n, "axpy");
        release_all();
    }
}

void check_relu(const lsi_kernels *k)
{
    for (size_t l = 0; l < test_length_count; l++) {
        const size_t n = test_lengths[l];
        float *a = extreme_floats(n), *y = floats(n), *want = floats(n);
        for (size_t i = 0; i < n; i++)
            want[i] = a[i] < 0 ? 0 : a[i]; /* NaN stays NaN */
        k->relu(y, a, n);
        expect_same(y, want, n, "relu");
        k->relu(a, a, n);
        expect_same(a, want, n, "relu in place");
        release_all();
    }
}

static void check_relu_backward_n(const lsi_kernels *k, size_t n)
{
    float *y = extreme_floats(n), *dy = random_floats(n, -2, 2);
    float *dx = floats(n), *sum = random_floats(n, -2, 2);
    float *want = floats(n), *want_sum = floats(n);
    for (size_t i = 0; i < n; i++) {
        want[i] = y[i] > 0 ? dy[i] : 0;
        want_sum[i] = sum[i] + want[i];
    }
    k->relu_backward(dx, dy, y, n, false);
    expect_same(dx, want, n, "relu_backward");
    k->relu_backward(sum, dy, y, n, true);
    expect_same(sum, want_sum, n, "relu_backward, accumulating");
    k->relu_backward(dy, dy, y, n, false);
    expect_same(dy, want, n, "relu_backward in place");
}

void check_relu_backward(const lsi_kernels *k)
{
    for (size_t l = 0; l < test_length_count; l++) {
        check_relu_backward_n(k, test_lengths[l]);
        release_all();
    }
}

static void check_dropout_at(const lsi_kernels *k, size_t n, uint64_t first,
                             uint32_t threshold)
{
    const lsi_rng_key key = {.seed = random_u64(), .stream = 3};
    const uint64_t sub = random_u64();
    float *x = random_floats(n, -2, 2), *y = floats(n), *want = floats(n);
    for (size_t i = 0; i < n; i++)
        want[i] =
            lsi_rng_u32(key, sub, first + i) >= threshold ? x[i] * 1.25F : 0.0F;
    k->dropout(y, x, n, key, sub, first, threshold, 1.25F);
    expect_same(y, want, n, "dropout");
    k->dropout(x, x, n, key, sub, first, threshold, 1.25F);
    expect_same(x, want, n, "dropout in place");
    release_all();
}

void check_dropout(const lsi_kernels *k)
{
    /* Any place in a block, and where the block number passes 32 bits. */
    const uint64_t firsts[] = {0, 1, 2, 3, 4, 1001, (UINT64_C(4) << 32) - 700};
    for (size_t f = 0; f < TEST_COUNT(firsts); f++)
        for (size_t l = 0; l < test_length_count; l++)
            check_dropout_at(k, test_lengths[l], firsts[f], 0x40000000U);
    check_dropout_at(k, 1000, 5, 0);
    check_dropout_at(k, 1000, 5, UINT32_MAX);
}
