/*
 * Batch normalisation and pooling of images: running statistics, evaluation,
 * empty batches, offsets that must not cancel, half types, and any number of
 * threads.
 */
#include <math.h>

#include "array/compute/threads.h"
#include "model/autograd/ops/ops.h"

#include "mixed.h"

static ls_batch_norm_args args_of(statistics s)
{
    return (ls_batch_norm_args){.running_mean = s.mean,
                                .running_var = s.var,
                                .eps = 1e-5,
                                .momentum = 0.25};
}

static void assert_near(double got, double want, double bound)
{
    if (!(fabs(got - want) <= bound))
        fail_msg("%.9g should be %.9g, within %.3g", got, want, bound);
}

static double at(const ls_tensor *t, int64_t i)
{
    return widened(t, i);
}

/* Over images and pixels, n = 2 x 35 numbers; in one layout or another. */
static void running_statistics(void **state)
{
    (void)state;
    const statistics s = new_statistics(3);
    const ls_batch_norm_args args = args_of(s);
    ls_tensor *x = image(2, 3, 5, 7);
    assert_non_null(ls_batch_norm(tape, x, &args));
    for (int c = 0; c < 3; c++) {
        double mean = 0, var = 0;
        for (int i = 0; i < 70; i++)
            mean += at(x, (i / 35 * 3 + c) * 35 + i % 35) / 70;
        for (int i = 0; i < 70; i++)
            var += pow(at(x, (i / 35 * 3 + c) * 35 + i % 35) - mean, 2) / 69;
        assert_near(at(s.mean, c), 0.75 * 2 + 0.25 * mean, 1e-6);
        assert_near(at(s.var, c), 0.75 * 3 + 0.25 * var, 1e-6);
    }
}

static void evaluation_uses_what_was_learned(void **state)
{
    (void)state;
    const statistics s = new_statistics(3);
    ls_batch_norm_args args = args_of(s);
    ls_tensor *x = image(2, 3, 4, 4), *r = image(2, 3, 4, 4);
    args.residual = r;
    args.relu = true;
    ls_tape_set_training(tape, false);
    const ls_tensor *y = ls_batch_norm(tape, x, &args);
    assert_non_null(y);
    for (int64_t i = 0; i < ls_tensor_count(y); i++)
        assert_near(at(y, i),
                    fmax((at(x, i) - 2) / sqrt(3 + 1e-5) + at(r, i), 0), 1e-6);
    for (int c = 0; c < 3; c++)
        assert_true(at(s.mean, c) == 2 && at(s.var, c) == 3);
}

/* No images, or images of no pixels, change nothing and give zero gradients. */
static void empty_batches(void **state)
{
    (void)state;
    const int64_t shapes[][4] = {{0, 3, 4, 4}, {2, 3, 0, 4}};
    for (int i = 0; i < 2; i++) {
        const statistics s = new_statistics(3);
        ls_batch_norm_args args = args_of(s);
        ls_tensor *x = random_tensor(4, shapes[i], 1);
        args.weight = vector(3);
        args.residual = random_tensor(4, shapes[i], 2);
        args.relu = true;
        assert_ok(ls_tape_watch(tape, x));
        assert_ok(ls_tape_watch(tape, args.weight));
        ls_tensor *y = ls_batch_norm(tape, x, &args);
        assert_non_null(y);
        assert_int_equal(ls_tensor_count(y), 0);
        assert_ok(ls_backward(tape, ls_sum(tape, y), 1.0));
        for (int c = 0; c < 3; c++) {
            assert_true(at(s.mean, c) == 2 && at(s.var, c) == 3);
            assert_true(at(ls_tape_grad(tape, args.weight), c) == 0);
        }
        ls_tape_reset(tape);
    }
    assert_int_equal(
        ls_tensor_count(ls_global_avg_pool2d(tape, image(0, 3, 4, 4))), 0);
    assert_int_equal(
        ls_tensor_count(ls_avg_pool2d(tape, image(0, 3, 4, 4), 2, NULL)), 0);
    assert_int_equal(
        ls_tensor_count(ls_max_pool2d(tape, image(0, 3, 4, 4), 2, NULL)), 0);
    ls_tensor *none = image(0, 4, 3, 3), *w = vector(4);
    assert_ok(ls_tape_watch(tape, w));
    ls_tensor *y = ls_group_norm(tape, none, 2, w, NULL, 1e-5);
    assert_ok(ls_backward(tape, ls_sum(tape, y), 1));
    for (int c = 0; c < 4; c++)
        assert_true(at(ls_tape_grad(tape, w), c) == 0);
}

/* One number for each channel has no variance. */
static void one_number(void **state)
{
    (void)state;
    const statistics s = new_statistics(3);
    const ls_batch_norm_args args = args_of(s);
    const ls_tensor *y = ls_batch_norm(tape, image(1, 3, 1, 1), &args);
    for (int c = 0; c < 3; c++)
        assert_true(at(y, c) == 0 && at(s.var, c) == 3);
}

/* An offset of 10000 costs the rounding of x, 2^-11, and no more. */
static void offsets_do_not_cancel(void **state)
{
    (void)state;
    const statistics s = new_statistics(2);
    const ls_batch_norm_args args = args_of(s);
    ls_tensor *x = image(4, 2, 16, 16);
    float *data = tensor_data(x);
    for (int64_t i = 0; i < ls_tensor_count(x); i++)
        data[i] += 1e4F;
    const ls_tensor *y = ls_batch_norm(tape, x, &args);
    for (int c = 0; c < 2; c++) {
        double mean = 0, var = 0;
        for (int i = 0; i < 1024; i++)
            mean += data[(i / 256 * 2 + c) * 256 + i % 256] / 1024.0;
        for (int i = 0; i < 1024; i++)
            var +=
                pow(data[(i / 256 * 2 + c) * 256 + i % 256] - mean, 2) / 1024;
        for (int i = 0; i < 1024; i++) {
            const int64_t k = (i / 256 * 2 + c) * 256 + i % 256;
            assert_near(at(y, k), (data[k] - mean) / sqrt(var + 1e-5), 2e-3);
        }
    }
}

/* The result in a half type, and its gradients in the inputs' types. */
static void half_types(void **state)
{
    (void)state;
    for (size_t t = 0; t < TEST_COUNT(halves); t++) {
        const ls_dtype dtype = halves[t];
        const double u = unit_of(dtype);
        assert_ok(ls_tape_set_autocast(tape, dtype));
        ls_tensor *x = image(2, 5, 6, 7), *r = image(2, 5, 6, 7);
        ls_tensor *half = ls_cast(tape, x, dtype);
        const statistics s = new_statistics(5), wide = new_statistics(5);
        ls_batch_norm_args args = args_of(s);
        args.relu = true;
        args.residual = r;
        assert_ok(ls_tape_watch(tape, half));
        assert_ok(ls_tape_watch(tape, r));
        ls_tensor *y = ls_batch_norm(tape, half, &args);
        assert_type(y, dtype);
        assert_ok(ls_tape_set_autocast(tape, LS_F32));
        args.running_mean = wide.mean;
        args.running_var = wide.var;
        ls_tensor *x32 = ls_cast(tape, half, LS_F32);
        assert_ok(ls_tape_watch(tape, x32));
        ls_tensor *y32 = ls_batch_norm(tape, x32, &args);
        for (int64_t i = 0; i < ls_tensor_count(y); i++)
            assert_near(at(y, i), at(y32, i), u * fabs(at(y32, i)));
        for (int c = 0; c < 5; c++)
            assert_true(at(s.mean, c) == at(wide.mean, c));
        assert_ok(ls_tape_set_autocast(tape, dtype));
        ls_tensor *loss = ls_sum(tape, ls_cast(tape, y, LS_F32));
        assert_ok(ls_backward(tape, ls_add(tape, loss, ls_sum(tape, y32)), 1));
        const ls_tensor *dx = ls_tape_grad(tape, half);
        const ls_tensor *dx32 = ls_tape_grad(tape, x32);
        assert_type(dx, dtype);
        assert_type(ls_tape_grad(tape, r), LS_F32);
        for (int64_t i = 0; i < ls_tensor_count(dx); i++) {
            /* The f32 gradient came back through the cast, too. */
            const double want = 2 * at(dx32, i);
            assert_near(at(dx, i), want, 4 * u * (fabs(want) + 1e-3));
        }
        ls_tape_reset(tape);
    }
    assert_ok(ls_tape_set_autocast(tape, LS_F32));
}

/* The same bits from one thread and from three. */
static void any_number_of_threads(void **state)
{
    (void)state;
    ls_tensor *kept[2][2];
    for (int run = 0; run < 2; run++) {
        lsi_threads_set(run == 0 ? 1 : 3);
        const statistics s = new_statistics(16);
        ls_batch_norm_args args = args_of(s);
        args.relu = true;
        ls_tensor *x = random_tensor(4, (const int64_t[]){9, 16, 5, 5}, 4);
        assert_ok(ls_tape_watch(tape, x));
        ls_tensor *y = ls_batch_norm(tape, x, &args);
        ls_tensor *mean = ls_global_avg_pool2d(tape, y);
        assert_ok(ls_backward(tape, ls_sum(tape, ls_mul(tape, mean, mean)), 1));
        kept[run][0] = ls_tensor_retain(mean);
        kept[run][1] = ls_tensor_retain(ls_tape_grad(tape, x));
        ls_tape_reset(tape);
    }
    lsi_threads_set(1);
    for (int i = 0; i < 2; i++) {
        for (int64_t k = 0; k < ls_tensor_count(kept[0][i]); k++)
            assert_true(at(kept[0][i], k) == at(kept[1][i], k));
        ls_tensor_free(&kept[0][i]);
        ls_tensor_free(&kept[1][i]);
    }
}

static void assert_refused(const ls_tensor *y, ls_status status,
                           const char *part)
{
    assert_null(y);
    assert_error(ls_tape_status(tape), status, part);
    ls_tape_reset(tape);
}

static void bad_shapes(void **state)
{
    (void)state;
    ls_batch_norm_args args = args_of(new_statistics(4));
    assert_refused(
        ls_batch_norm(tape, image(2, 3, 4, 4), &args), LS_ERR_SHAPE,
        "running_mean has shape (4); it must be contiguous and have shape "
        "(C), because x has shape (2, 3");
    args = args_of(new_statistics(3));
    args.residual = image(2, 3, 4, 5);
    assert_refused(ls_batch_norm(tape, image(2, 3, 4, 4), &args), LS_ERR_SHAPE,
                   "(2, 3, 4, 4) and (2, 3, 4, 5)");
    assert_refused(ls_global_avg_pool2d(tape, matrix(2, 3)), LS_ERR_SHAPE,
                   "expected shape (N, C, H, W) for x");
    assert_refused(ls_global_avg_pool2d(tape, image(2, 3, 0, 4)), LS_ERR_SHAPE,
                   "no pixels");
    assert_refused(ls_group_norm(tape, image(2, 6, 3, 3), 4, NULL, NULL, 1e-5),
                   LS_ERR_ARGUMENT, "groups is 4");
    assert_refused(
        ls_group_norm(tape, image(2, 6, 3, 3), 3, vector(3), NULL, 1e-5),
        LS_ERR_SHAPE, "weight has shape (3)");
    const ls_pool2d_options wide = {.padding = 2};
    assert_refused(ls_avg_pool2d(tape, image(1, 1, 5, 5), 3, &wide),
                   LS_ERR_ARGUMENT, "padding 2");
    assert_refused(ls_max_pool2d(tape, image(1, 1, 5, 1), 2, NULL),
                   LS_ERR_SHAPE, "2 x 2 does not fit");
    assert_refused(ls_conv2d(tape, image(1, 4, 5, 5), image(6, 2, 3, 3), NULL,
                             &(ls_conv2d_options){.groups = 4}),
                   LS_ERR_SHAPE, "groups is 4 and must divide");
    assert_refused(ls_conv2d(tape, image(1, 4, 5, 5), image(6, 4, 3, 3), NULL,
                             &(ls_conv2d_options){.dilation = 3}),
                   LS_ERR_SHAPE, "dilation 3 does not fit");
    assert_refused(ls_conv2d(tape, image(1, 4, 5, 5), image(6, 4, 3, 3), NULL,
                             &(ls_conv2d_options){.groups = -1}),
                   LS_ERR_ARGUMENT, "groups -1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(running_statistics),    CASE(evaluation_uses_what_was_learned),
        CASE(empty_batches),         CASE(one_number),
        CASE(offsets_do_not_cancel), CASE(half_types),
        CASE(any_number_of_threads), CASE(bad_shapes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
