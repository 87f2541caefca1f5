/*
 * Mixed precision in convolutions, against loops in double over rounded inputs
 * and against the same layers in f32.
 */
#include <math.h>

#include "lockstep/autograd.h"
#include "mixed.h"

enum { IMAGES = 2, CHANNELS = 16, SIDE = 7, INNER = SIDE - 2, TAPS = 9 };

static const int64_t image_shape[] = {IMAGES, CHANNELS, SIDE, SIDE};
static const int64_t filter_shape[] = {CHANNELS, CHANNELS, 3, 3};

/*
 * The error of a sum of products in a convolution, whose terms have `size`
 * together. Where rounded operands are multiplied in f32 that may be done by
 * Winograd's algorithm (tests/unit/kernels/test_conv2d.c); terms are below 1.
 */
static double conv_error(double size)
{
    return (CHANNELS * TAPS + 4) * 0x1p-24 * size +
           12 * 27 * sqrt(CHANNELS) * 0x1p-24;
}

static int64_t image_at(int64_t n, int64_t c, int64_t y, int64_t x)
{
    return ((n * CHANNELS + c) * SIDE + y) * SIDE + x;
}

static int64_t result_at(int64_t n, int64_t o, int64_t y, int64_t x)
{
    return ((n * CHANNELS + o) * INNER + y) * INNER + x;
}

static int64_t filter_at(int64_t o, int64_t c, int64_t tap)
{
    return (o * CHANNELS + c) * TAPS + tap;
}

/* One output: rounded operands, sums in f32, rounded again. */
static void check_pixel(const ls_tensor *y, const ls_tensor *x,
                        const ls_tensor *w, const ls_tensor *bias,
                        const int64_t at[4], ls_dtype dtype)
{
    double sum = widened(bias, at[1]), size = fabs(sum);
    for (int64_t c = 0; c < CHANNELS; c++)
        for (int64_t t = 0; t < TAPS; t++) {
            const int64_t from =
                image_at(at[0], c, at[2] + t / 3, at[3] + t % 3);
            const double term = rounded(x, from, dtype) *
                                rounded(w, filter_at(at[1], c, t), dtype);
            sum += term;
            size += fabs(term);
        }
    const double wanted = fmax(sum, 0);
    assert_true(fabs(widened(y, result_at(at[0], at[1], at[2], at[3])) -
                     wanted) <= unit_of(dtype) * wanted + conv_error(size));
}

/* The loss is the sum of y, so what comes back is 1 where y > 0. */
static double passed(const ls_tensor *y, int64_t n, int64_t o, int64_t row,
                     int64_t column)
{
    if (row < 0 || column < 0 || row >= INNER || column >= INNER)
        return 0;
    return widened(y, result_at(n, o, row, column)) > 0 ? 1 : 0;
}

static void check_dx(const ls_tensor *dx, const ls_tensor *y,
                     const ls_tensor *w, const int64_t at[4], ls_dtype dtype)
{
    double sum = 0, size = 0;
    for (int64_t o = 0; o < CHANNELS; o++)
        for (int64_t t = 0; t < TAPS; t++) {
            const double term =
                passed(y, at[0], o, at[2] - t / 3, at[3] - t % 3) *
                rounded(w, filter_at(o, at[1], t), dtype);
            sum += term;
            size += fabs(term);
        }
    assert_true(fabs(widened(dx, image_at(at[0], at[1], at[2], at[3])) - sum) <=
                conv_error(size));
}

static void check_dw(const ls_tensor *dw, const ls_tensor *y,
                     const ls_tensor *x, int64_t o, int64_t c, ls_dtype dtype)
{
    for (int64_t t = 0; t < TAPS; t++) {
        double sum = 0, size = 0;
        for (int64_t i = 0; i < IMAGES * INNER * INNER; i++) {
            const int64_t n = i / (INNER * INNER);
            const int64_t row = i / INNER % INNER, column = i % INNER;
            const double term =
                passed(y, n, o, row, column) *
                rounded(x, image_at(n, c, row + t / 3, column + t % 3), dtype);
            sum += term;
            size += fabs(term);
        }
        assert_true(fabs(widened(dw, filter_at(o, c, t)) - sum) <=
                    conv_error(size));
    }
}

static void check_convolution(ls_tensor *y, ls_tensor *x, ls_tensor *w,
                              ls_tensor *bias, ls_dtype dtype)
{
    const ls_tensor *dx = ls_tape_grad(tape, x), *dw = ls_tape_grad(tape, w);
    assert_type(dx, LS_F32);
    assert_type(dw, LS_F32);
    for (int64_t i = 0; i < ls_tensor_count(y); i++)
        check_pixel(y, x, w, bias,
                    (int64_t[]){i / (CHANNELS * INNER * INNER),
                                i / (INNER * INNER) % CHANNELS,
                                i / INNER % INNER, i % INNER},
                    dtype);
    for (int64_t i = 0; i < ls_tensor_count(x); i++)
        check_dx(dx, y, w,
                 (int64_t[]){i / (CHANNELS * SIDE * SIDE),
                             i / (SIDE * SIDE) % CHANNELS, i / SIDE % SIDE,
                             i % SIDE},
                 dtype);
    for (int64_t i = 0; i < CHANNELS * CHANNELS; i++)
        check_dw(dw, y, x, i / CHANNELS, i % CHANNELS, dtype);
}

static ls_tensor *watched_image(const int64_t *shape, uint32_t seed)
{
    ls_tensor *t = random_tensor(4, shape, seed);
    assert_ok(ls_tape_watch(tape, t));
    return t;
}

static void conv2d_rounds_what_it_multiplies(void **state)
{
    (void)state;
    for (size_t h = 0; h < TEST_COUNT(halves); h++) {
        assert_ok(ls_tape_set_autocast(tape, halves[h]));
        ls_tensor *x = watched_image(image_shape, 1);
        ls_tensor *w = watched_image(filter_shape, 2);
        ls_tensor *bias = random_tensor(1, (const int64_t[]){CHANNELS}, 3);
        ls_tensor *y =
            ls_conv2d(tape, x, w, bias, &(ls_conv2d_options){.relu = true});
        assert_type(y, halves[h]);
        assert_ok(ls_backward(tape, ls_sum(tape, y), 1.0));
        check_convolution(y, x, w, bias, halves[h]);
        ls_tape_reset(tape);
    }
}

/* A weight that is half itself has a half gradient, whatever its uses. */
static void half_weights_have_half_gradients(void **state)
{
    (void)state;
    const int64_t images[] = {IMAGES, 0};
    for (size_t h = 0; h < 2 * TEST_COUNT(halves); h++) {
        const ls_dtype half = halves[h / 2];
        int64_t shape[4] = {images[h % 2], CHANNELS, SIDE, SIDE};
        assert_ok(ls_tape_set_autocast(tape, LS_F32));
        ls_tensor *x = watched_image(shape, 1);
        ls_tensor *w = watched_image(filter_shape, 2);
        ls_tensor *half_x = ls_cast(tape, x, half);
        ls_tensor *half_w = ls_cast(tape, w, half);
        ls_tensor *sum = NULL;
        for (int use = 0; use < 2; use++) {
            ls_tensor *y = ls_cast(
                tape, ls_conv2d(tape, half_x, half_w, NULL, NULL), LS_F32);
            sum = sum == NULL ? ls_sum(tape, y)
                              : ls_add(tape, sum, ls_sum(tape, y));
        }
        assert_ok(ls_backward(tape, sum, 1.0));
        const ls_tensor *dw = ls_tape_grad(tape, w);
        assert_type(dw, LS_F32);
        for (int64_t i = 0; i < ls_tensor_count(dw); i++) {
            double wanted = 0, size = 0;
            const int64_t c = i / TAPS % CHANNELS, t = i % TAPS;
            for (int64_t at = 0; at < shape[0] * INNER * INNER; at++) {
                const double term = rounded(x,
                                            image_at(at / (INNER * INNER), c,
                                                     at / INNER % INNER + t / 3,
                                                     at % INNER + t % 3),
                                            half);
                wanted += 2 * term;
                size += 2 * fabs(term);
            }
            assert_true(fabs(widened(dw, i) - wanted) <=
                        2 * unit_of(half) * fabs(wanted) + conv_error(size));
        }
        ls_tape_reset(tape);
    }
}

/* Tensors between two convolutions and a pool are half, and so are their
 * gradients; against the same network of rounded parameters in f32. */
static void layers_of_images_agree_with_f32(void **state)
{
    (void)state;
    const ls_dtype types[] = {LS_F32, LS_BF16, LS_F16};
    double loss[3], norm[3];
    for (int i = 0; i < 3; i++) {
        assert_ok(ls_tape_set_autocast(tape, types[i]));
        ls_tensor *x = watched_image(image_shape, 1);
        ls_tensor *w[] = {watched_image(filter_shape, 2),
                          watched_image(filter_shape, 3)};
        ls_tensor *y =
            ls_conv2d(tape, x, w[0], NULL, &(ls_conv2d_options){.relu = true});
        assert_ok(ls_tape_watch(tape, y));
        y = ls_conv2d(tape, y, w[1], NULL, &(ls_conv2d_options){.padding = 1});
        ls_tensor *z = ls_max_pool2d(tape, y, 2, NULL);
        assert_type(z, LS_F32);
        ls_tensor *mean = ls_mean(tape, ls_mul(tape, z, z));
        loss[i] = widened(mean, 0);
        assert_ok(ls_backward(tape, mean, 1.0));
        assert_type(ls_tape_grad(tape, w[1]), LS_F32);
        norm[i] = 0;
        for (int64_t j = 0; j < ls_tensor_count(w[0]); j++)
            norm[i] += pow(widened(ls_tape_grad(tape, w[0]), j), 2);
        ls_tape_reset(tape);
    }
    for (int i = 1; i < 3; i++) {
        assert_true(fabs(loss[i] - loss[0]) <= 8 * unit_of(types[i]) * loss[0]);
        assert_true(fabs(norm[i] - norm[0]) <=
                    16 * unit_of(types[i]) * norm[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(conv2d_rounds_what_it_multiplies),
        CASE(half_weights_have_half_gradients),
        CASE(layers_of_images_agree_with_f32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
