/*
 * Operations of transformers: what they refuse, empty input, and any number of
 * threads; and softmax over any axis. Values and gradients of the others:
 * gradients_transformer.c.
 */
#include <math.h>
#include <string.h>

#include "array/compute/threads.h"
#include "ops_fixture.h"
#include "testing.h"

static void assert_fails(const ls_tensor *result, ls_status status,
                         const char *part)
{
    assert_null(result);
    assert_error(ls_backward(tape, NULL, 1.0), status, part);
    ls_tape_reset(tape);
}

static void indices_are_checked(void **state)
{
    (void)state;
    const int64_t above[] = {0, 4, 5}, below[] = {-1};
    assert_fails(ls_embedding(tape, matrix(5, 2), labels_of(above, 3)),
                 LS_ERR_ARGUMENT,
                 "index 2 is 5; it must be at least 0 and "
                 "below 5");
    assert_fails(ls_embedding(tape, matrix(5, 2), labels_of(below, 1)),
                 LS_ERR_ARGUMENT, "index 0 is -1");
    assert_fails(ls_embedding(tape, matrix(5, 2), vector(3)), LS_ERR_DTYPE,
                 "i64");
    assert_fails(ls_embedding(tape, vector(5), labels_of(above, 1)),
                 LS_ERR_SHAPE, "expected shape (V, D) for weight");
}

static void shapes_are_checked(void **state)
{
    (void)state;
    assert_fails(ls_rms_norm(tape, matrix(2, 3), vector(2), 1e-5), LS_ERR_SHAPE,
                 "rms_norm: x has shape (2, 3) and weight has shape (2)");
    assert_fails(ls_layer_norm(tape, matrix(2, 3), vector(3), vector(4), 1e-5),
                 LS_ERR_SHAPE,
                 "layer_norm: x has shape (2, 3) and bias has shape (4)");
    assert_fails(ls_rope(tape, image(1, 4, 2, 6), matrix(3, 3), matrix(3, 3),
                         LS_ROPE_PAIRS),
                 LS_ERR_SHAPE, "The tables have shape (3, 3)");
    assert_fails(ls_rope(tape, image(1, 2, 2, 5), matrix(2, 2), matrix(2, 2),
                         LS_ROPE_PAIRS),
                 LS_ERR_SHAPE, "an even d");
    assert_fails(ls_rope(tape, image(1, 2, 2, 6), matrix(2, 3), matrix(3, 3),
                         LS_ROPE_PAIRS_TO_HALVES),
                 LS_ERR_SHAPE, "must be equal");
    assert_fails(ls_rope(tape, image(1, 2, 2, 6), matrix(2, 3), matrix(2, 3),
                         (ls_rope_layout)3),
                 LS_ERR_ARGUMENT, "layout is 3");
    assert_fails(ls_swiglu(tape, matrix(2, 3), matrix(3, 2)), LS_ERR_SHAPE,
                 "swiglu");
    assert_fails(ls_gelu(tape, NULL), LS_ERR_ARGUMENT, "gelu");
}

/* ---- softmax ------------------------------------------------------------- */

static double at(const ls_tensor *t, const int64_t *index)
{
    int64_t place = 0;
    for (int d = 0; d < ls_tensor_ndim(t); d++)
        place += index[d] * ls_tensor_strides(t)[d];
    return (double)((const float *)tensor_data(t))[place];
}

/*
 * One element. With u = 2^-24 and d = largest - x: x - largest is rounded once
 * (d u of e^-d), and e^x is within 4 u. Division and result are within 2 u. The
 * errors of the terms of the sum add up to at most sum of d e^-d <= n / e,
 * each, and its additions n u. Terms below e^-87 may be 0. The logarithm of a
 * sum is off by this much, and rounded.
 */
static void check_softmax(const ls_tensor *y, const ls_tensor *log_y,
                          const ls_tensor *x, int axis, const int64_t *index)
{
    const int64_t n = ls_tensor_shape(x)[axis];
    int64_t other[4];
    double most = -INFINITY, sum = 0.0;
    memcpy(other, index, sizeof other);
    for (other[axis] = 0; other[axis] < n; other[axis]++)
        most = fmax(most, at(x, other));
    for (other[axis] = 0; other[axis] < n; other[axis]++)
        sum += exp(at(x, other) - most);
    const double d = most - at(x, index), want = exp(-d) / sum;
    const double sums = 1.4 * (double)n + 12;
    const double bound = (d + sums) * 0x1p-24 * want + 0x1p-125;
    const double log_want = -d - log(sum);
    const double log_bound = (d + sums + fabs(log_want)) * 0x1p-24;
    if (!(fabs(at(y, index) - want) <= bound))
        fail_msg("softmax gives %.9g, not %.9g, bound %.3g", at(y, index), want,
                 bound);
    if (!(fabs(at(log_y, index) - log_want) <= log_bound))
        fail_msg("log_softmax gives %.9g, not %.9g, bound %.3g",
                 at(log_y, index), log_want, log_bound);
}

static void check_axis(ls_tensor *x, int axis)
{
    const ls_tensor *y = ls_softmax(tape, x, axis);
    const ls_tensor *log_y = ls_log_softmax(tape, x, axis);
    assert_non_null(y);
    assert_non_null(log_y);
    assert_true(ls_tensor_is_contiguous(y));
    const int64_t *n = ls_tensor_shape(x);
    int64_t i[4];
    for (i[0] = 0; i[0] < n[0]; i[0]++)
        for (i[1] = 0; i[1] < n[1]; i[1]++)
            for (i[2] = 0; i[2] < n[2]; i[2]++)
                for (i[3] = 0; i[3] < n[3]; i[3]++)
                    check_softmax(y, log_y, x, axis, i);
}

static void softmax_over_any_axis(void **state)
{
    (void)state;
    const double scales[] = {1, 50, 1e30}; /* e^1e30 fits nothing */
    for (size_t s = 0; s < TEST_COUNT(scales); s++) {
        ls_tensor *x = ls_scale(tape, image(3, 1, 7, 130), scales[s]);
        for (int axis = 0; axis < 4; axis++) {
            check_axis(x, axis);
            check_axis(ls_transpose(tape, x, 0, 3), axis);
            check_axis(ls_narrow(tape, x, 2, 2, 5), axis);
        }
    }
}

static void softmax_of_what_is_not_finite(void **state)
{
    (void)state;
    ls_tensor *x = matrix(3, 2);
    const float values[] = {-INFINITY, 1, INFINITY, 1, NAN, 1};
    memcpy(tensor_data(x), values, sizeof values);
    const float *y = tensor_data(ls_softmax(tape, x, 1));
    assert_true(y[0] == 0 && y[1] == 1);
    for (int i = 2; i < 6; i++)
        assert_true(isnan(y[i]));
}

static void softmax_of_nothing_and_of_no_axis(void **state)
{
    (void)state;
    for (int axis = 0; axis < 2; axis++) {
        ls_tensor *x = matrix(0, 3), *z = matrix(3, 0);
        assert_ok(ls_tape_watch(tape, x));
        assert_ok(ls_tape_watch(tape, z));
        ls_tensor *y = ls_softmax(tape, x, axis);
        assert_int_equal(ls_tensor_count(y), 0);
        y = ls_add(tape, ls_sum(tape, y),
                   ls_sum(tape, ls_softmax(tape, z, axis)));
        assert_ok(ls_backward(tape, y, 1.0));
        ls_tape_reset(tape);
    }
    assert_fails(ls_softmax(tape, matrix(2, 3), 2), LS_ERR_ARGUMENT,
                 "softmax: the shape (2, 3) has no axis 2");
    assert_fails(ls_softmax(tape, matrix(2, 3), -1), LS_ERR_ARGUMENT,
                 "no axis -1");
    assert_fails(ls_log_softmax(tape, matrix(2, 3), 5), LS_ERR_ARGUMENT,
                 "log_softmax: the shape (2, 3) has no axis 5");
    assert_fails(ls_softmax(tape, labels_of((int64_t[]){1}, 1), 0),
                 LS_ERR_DTYPE, "i64");
}

static ls_tensor *tracked(int ndim, const int64_t *shape, uint32_t seed)
{
    ls_tensor *x = random_tensor(ndim, shape, seed);
    assert_ok(ls_tape_watch(tape, x));
    return x;
}

static void no_rows_at_all(void **state)
{
    (void)state;
    const int64_t none = 0;
    ls_tensor *table = tracked(2, (const int64_t[]){5, 4}, 1);
    ls_tensor *x = ls_embedding(tape, table, labels_of(&none, 0));
    x = ls_rms_norm(tape, x, vector(4), 1e-5);
    x = ls_layer_norm(tape, x, vector(4), vector(4), 1e-5);
    x = ls_gelu(tape, ls_swiglu(tape, x, x));
    x = ls_reshape(tape, x, 4, (const int64_t[]){0, 3, 2, 2});
    x = ls_rope(tape, x, matrix(3, 1), matrix(3, 1), LS_ROPE_PAIRS);
    assert_ok(ls_backward(tape, ls_sum(tape, x), 1.0));
    const float *grad = tensor_data(ls_tape_grad(tape, table));
    for (int i = 0; i < 20; i++)
        assert_true(grad[i] == 0.0F);
}

/* ---- threads ------------------------------------------------------------- */

enum { ROWS = 300, WIDTH = 96, HEADS = 6, VOCABULARY = 40 };

/* All of them, larger than a thread's share; returns what backward gave. */
static float *step(int threads, size_t *n)
{
    int64_t indices[ROWS];
    for (int i = 0; i < ROWS; i++)
        indices[i] = i * i % VOCABULARY;
    lsi_threads_set(threads);
    ls_tensor *leaf[] = {tracked(2, (const int64_t[]){VOCABULARY, WIDTH}, 1),
                         tracked(1, (const int64_t[]){WIDTH}, 2),
                         tracked(1, (const int64_t[]){WIDTH}, 3)};
    ls_tensor *x = ls_embedding(tape, leaf[0], labels_of(indices, ROWS));
    ls_tensor *h = ls_layer_norm(tape, x, leaf[1], leaf[2], 1e-5);
    h = ls_swiglu(tape, h, ls_gelu(tape, ls_rms_norm(tape, h, leaf[1], 1e-5)));
    h = ls_reshape(tape, h, 4,
                   (const int64_t[]){3, ROWS / 3, HEADS, WIDTH / HEADS});
    h = ls_rope(tape, h, matrix(ROWS / 3, WIDTH / HEADS / 2),
                matrix(ROWS / 3, WIDTH / HEADS / 2), LS_ROPE_PAIRS_TO_HALVES);
    h = ls_mul(tape, h, ls_softmax(tape, h, 0));
    assert_ok(ls_backward(tape, ls_sum(tape, ls_mul(tape, h, h)), 1.0));
    *n = (VOCABULARY + 2) * WIDTH;
    float *out = test_malloc(*n * sizeof(float));
    float *next = out;
    for (size_t i = 0; i < TEST_COUNT(leaf); i++) {
        ls_tensor *grad = ls_tape_grad(tape, leaf[i]);
        const size_t count = (size_t)ls_tensor_count(grad);
        memcpy(next, tensor_data(grad), count * sizeof(float));
        next += count;
    }
    ls_tape_reset(tape);
    lsi_threads_set(1);
    return out;
}

static void threads_do_not_change_a_bit(void **state)
{
    (void)state;
    size_t n = 0;
    float *one = step(1, &n);
    for (int threads = 2; threads <= 5; threads++) {
        float *more = step(threads, &n);
        assert_memory_equal(one, more, n * sizeof(float));
        test_free(more);
    }
    test_free(one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(indices_are_checked),
        CASE(shapes_are_checked),
        CASE(no_rows_at_all),
        CASE(softmax_over_any_axis),
        CASE(softmax_of_what_is_not_finite),
        CASE(softmax_of_nothing_and_of_no_axis),
        CASE(threads_do_not_change_a_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
