/*
 * Broadcasting and reductions over axes, apart from their gradients: shapes of
 * any rank against loops, blocks and threads, views, empty tensors, types, and
 * what is refused.
 */
#include <math.h>
#include <stdlib.h>

#include "array/compute/axes.h"
#include "shapes.h"

/* ---- broadcasting -------------------------------------------------------- */

/* The last dimensions of the shape, of which some become 1. */
static ls_tensor *part_of(int ndim, const int64_t *shape, uint32_t seed)
{
    const int own = 1 + (int)draw(ndim);
    int64_t extents[LS_MAX_DIMS];
    for (int d = 0; d < own; d++) {
        const int64_t whole = shape[ndim - own + d];
        extents[d] = draw(3) == 0 ? 1 : whole;
    }
    return random_tensor(own, extents, seed);
}

static float repeated(const ls_tensor *t, int ndim, const int64_t *index)
{
    int64_t own[LS_MAX_DIMS];
    for (int d = 0; d < t->ndim; d++)
        own[d] = t->shape[d] == 1 ? 0 : index[d + ndim - t->ndim];
    return at(t, own);
}

static void check_broadcast(int op, ls_tensor *a, ls_tensor *b)
{
    ls_tensor *(*const ops[])(ls_tape *, ls_tensor *,
                              ls_tensor *) = {ls_add, ls_sub, ls_mul, ls_div};
    const ls_tensor *y = ops[op](tape, a, b);
    assert_ok(ls_tape_status(tape));
    const float *got = tensor_data(y);
    int64_t index[LS_MAX_DIMS];
    for (int64_t i = 0; i < y->count; i++) {
        place_of(y->ndim, y->shape, i, index);
        const float p = repeated(a, y->ndim, index);
        const float q = repeated(b, y->ndim, index);
        const float want[] = {p + q, p - q, p * q, p / q};
        assert_true(got[i] == want[op]);
    }
}

static void any_shapes_broadcast(void **state)
{
    (void)state;
    for (int round = 0; round < 300; round++) {
        const int ndim = 1 + (int)draw(LS_MAX_DIMS);
        int64_t shape[LS_MAX_DIMS];
        for (int d = 0; d < ndim; d++)
            shape[d] = 1 + draw(ndim < 4 ? 40 : 5);
        lsi_threads_set(1 + round % 3);
        check_broadcast(round % 4,
                        perhaps_turned(part_of(ndim, shape, 2 + drawn)),
                        perhaps_turned(part_of(ndim, shape, 3 + drawn)));
        ls_tape_reset(tape);
    }
}

/* Rows of more than a block, blocks of many rows, more than one thread. */
static void large_shapes_broadcast(void **state)
{
    (void)state;
    static const int64_t shapes[][2][3] = {
        {{20, 3, 1031}, {1, 3, 1}},     {{7, 1, 1500}, {1, 5, 1}},
        {{3000, 5, 3}, {3000, 1, 3}},   {{3, 100, 192}, {1, 1, 192}},
        {{4, 100, 130}, {1, 100, 130}}, {{1, 1, 1}, {9, 70, 100}}};
    for (size_t s = 0; s < TEST_COUNT(shapes); s++) {
        for (int threads = 1; threads < 4; threads++) {
            lsi_threads_set(threads);
            check_broadcast((int)s % 4, random_tensor(3, shapes[s][0], 3),
                            random_tensor(3, shapes[s][1], 4));
        }
        ls_tape_reset(tape);
    }
}

static void what_does_not_broadcast(void **state)
{
    (void)state;
    assert_fails(ls_add(tape, matrix(2, 3), matrix(2, 4)), LS_ERR_SHAPE,
                 "add: shapes (2, 3) and (2, 4) do not broadcast");
    assert_fails(ls_div(tape, image(2, 3, 4, 5), vector(4)), LS_ERR_SHAPE,
                 "div: shapes (2, 3, 4, 5) and (4)");
    assert_fails(ls_sub(tape, matrix(0, 3), matrix(2, 3)), LS_ERR_SHAPE,
                 "(0, 3) and (2, 3)");
    assert_fails(ls_expand(tape, matrix(2, 3), 2, (const int64_t[]){4, 3}),
                 LS_ERR_SHAPE, "(2, 3) does not broadcast to (4, 3)");
    assert_fails(ls_expand(tape, matrix(1, 3), 1, (const int64_t[]){3}),
                 LS_ERR_SHAPE, "(1, 3) does not broadcast to (3)");
    assert_fails(ls_expand(tape, vector(1), 1, (const int64_t[]){-3}),
                 LS_ERR_ARGUMENT, "-3");
}

/* ---- reductions ---------------------------------------------------------- */

typedef struct reduced {
    double sum, size, most;
    int n, equal; /* elements, and how many of them are the largest */
} reduced;

static reduced reduce_at(const ls_tensor *x, const bool *over,
                         const int64_t *kept)
{
    reduced r = {.most = -INFINITY};
    int64_t index[LS_MAX_DIMS];
    for (int64_t i = 0; i < x->count; i++) {
        place_of(x->ndim, x->shape, i, index);
        bool here = true;
        for (int d = 0; d < x->ndim; d++)
            here = here && (over[d] || index[d] == kept[d]);
        if (!here)
            continue;
        const double value = (double)at(x, index);
        r.sum += value;
        r.size += fabs(value);
        r.n++;
        if (value > r.most)
            r.equal = 0;
        r.equal += value >= r.most;
        r.most = fmax(r.most, value);
    }
    return r;
}

static void check_reductions(ls_tensor *x, int n, const int *axes)
{
    bool over[LS_MAX_DIMS] = {false};
    int64_t index[LS_MAX_DIMS];
    for (int i = 0; i < n; i++)
        over[axes[i]] = true;
    assert_ok(ls_tape_watch(tape, x));
    const ls_tensor *sum = ls_sum_axes(tape, x, axes, n, LS_AXES_KEEP);
    const ls_tensor *mean = ls_mean_axes(tape, x, axes, n, LS_AXES_KEEP);
    ls_tensor *most = ls_max_axes(tape, x, axes, n, LS_AXES_KEEP);
    const ls_tensor *flat = ls_sum_axes(tape, x, axes, n, LS_AXES_DROP);
    assert_ok(ls_backward(tape, ls_sum(tape, most), 1.0));
    assert_int_equal(flat->ndim, x->ndim - n);
    assert_memory_equal(tensor_data(flat), tensor_data(sum),
                        (size_t)sum->count * sizeof(float));
    const ls_tensor *dx = ls_tape_grad(tape, x);
    for (int64_t i = 0; i < sum->count; i++) {
        place_of(sum->ndim, sum->shape, i, index);
        const reduced want = reduce_at(x, over, index);
        const double bound = (want.n + 2) * want.size * 0x1p-24;
        assert_true(fabs((double)at(sum, index) - want.sum) <= bound);
        assert_true(fabs((double)at(mean, index) - want.sum / want.n) <=
                    bound / want.n);
        assert_true((double)at(most, index) == want.most);
    }
    for (int64_t i = 0; i < x->count; i++) {
        place_of(x->ndim, x->shape, i, index);
        const reduced all = reduce_at(x, over, index);
        const bool largest = (double)at(x, index) == all.most;
        const float want = largest ? 1.0F / (float)all.equal : 0.0F;
        assert_true(at(dx, index) == want);
    }
}

/* Small integers, among which many are equal. */
static ls_tensor *ties(int ndim, const int64_t *shape)
{
    ls_tensor *x = random_tensor(ndim, shape, 9 + drawn);
    float *data = tensor_data(x);
    for (int64_t i = 0; i < x->count; i++)
        data[i] = rintf(data[i] * 3.0F);
    return x;
}

static void any_axes_are_reduced(void **state)
{
    (void)state;
    for (int round = 0; round < 200; round++) {
        const int ndim = 1 + (int)draw(5);
        int64_t shape[LS_MAX_DIMS];
        int axes[LS_MAX_DIMS], n = 0;
        for (int d = 0; d < ndim; d++) {
            shape[d] = 1 + draw(ndim < 3 ? 20 : 4);
            if (draw(2) == 0)
                axes[n++] = d;
        }
        lsi_threads_set(1 + round % 3);
        ls_tensor *x = ties(ndim, shape);
        check_reductions(x, n, axes);
        ls_tape_reset(tape);
    }
}

/* Threads and blocks change no bit. */
static void large_sums(void **state)
{
    (void)state;
    static const int64_t shape[] = {6, 70, 5, 130};
    static const int lists[][3] = {{0}, {1}, {3}, {0, 2}, {1, 3}, {0, 1, 2}};
    static const int counts[] = {1, 1, 1, 2, 2, 3};
    for (size_t l = 0; l < TEST_COUNT(lists); l++) {
        ls_tensor *x = random_tensor(4, shape, 5), *y[3];
        for (int t = 0; t < 3; t++) {
            lsi_threads_set(1 + t);
            y[t] = ls_sum_axes(tape, x, lists[l], counts[l], LS_AXES_DROP);
            assert_memory_equal(tensor_data(y[0]), tensor_data(y[t]),
                                (size_t)y[t]->count * sizeof(float));
            assert_non_null(
                ls_max_axes(tape, x, lists[l], counts[l], LS_AXES_DROP));
        }
        double of_all = 0.0, of_parts = 0.0;
        assert_ok(ls_tensor_item(ls_sum(tape, x), &of_all));
        assert_ok(ls_tensor_item(ls_sum(tape, y[0]), &of_parts));
        assert_true(fabs(of_all - of_parts) <= 0x1p-24 * 273000);
        ls_tape_reset(tape);
    }
}

static void largest_of_nan(void **state)
{
    (void)state;
    for (int axis = 0; axis < 2; axis++) {
        ls_tensor *x = matrix(3, 3);
        assert_ok(ls_tape_watch(tape, x));
        ((float *)tensor_data(x))[4] = NAN;
        ls_tensor *y = ls_max_axes(tape, x, &axis, 1, LS_AXES_DROP);
        const float *data = tensor_data(y);
        assert_true(!isnan(data[0]) && isnan(data[1]) && !isnan(data[2]));
        assert_ok(ls_backward(tape, ls_sum(tape, y), 1.0));
        const float *dx = tensor_data(ls_tape_grad(tape, x));
        for (int i = 0; i < 9; i++)
            assert_int_equal(isnan(dx[i]), (axis == 0 ? i % 3 : i / 3) == 1);
        ls_tape_reset(tape);
    }
}

static void axes_that_are_refused(void **state)
{
    (void)state;
    const int twice[] = {1, 1}, none = 2, negative = -1, first = 0;
    assert_fails(ls_sum_axes(tape, matrix(2, 3), &none, 1, LS_AXES_DROP),
                 LS_ERR_ARGUMENT, "sum_axes: the shape (2, 3) has no axis 2");
    assert_fails(ls_mean_axes(tape, matrix(2, 3), &negative, 1, LS_AXES_DROP),
                 LS_ERR_ARGUMENT, "mean_axes: the shape (2, 3) has no axis -1");
    assert_fails(ls_max_axes(tape, matrix(2, 3), twice, 2, LS_AXES_DROP),
                 LS_ERR_ARGUMENT, "max_axes: axis 1 is given twice");
    assert_fails(ls_max_axes(tape, matrix(0, 3), &first, 1, LS_AXES_DROP),
                 LS_ERR_SHAPE, "axis 0 of shape (0, 3) has 0 elements");
}

/* ---- empty tensors, types ------------------------------------------------ */

static void nothing_at_all(void **state)
{
    (void)state;
    const int axis = 0, both[] = {0, 1};
    ls_tensor *x = matrix(0, 3), *b = vector(3);
    assert_ok(ls_tape_watch(tape, x));
    assert_ok(ls_tape_watch(tape, b));
    ls_tensor *y = ls_div(tape, ls_mul(tape, ls_add(tape, x, b), b), b);
    assert_int_equal(y->count, 0);
    ls_tensor *sums = ls_sum_axes(tape, y, &axis, 1, LS_AXES_DROP);
    ls_tensor *means = ls_mean_axes(tape, y, both, 2, LS_AXES_DROP);
    assert_int_equal(sums->count, 3);
    assert_true(*(const float *)tensor_data(means) == 0.0F);
    assert_true(at(sums, (const int64_t[]){2}) == 0.0F);
    assert_ok(ls_backward(tape, ls_add(tape, means, ls_sum(tape, sums)), 1.0));
    const float *db = tensor_data(ls_tape_grad(tape, b));
    for (int i = 0; i < 3; i++)
        assert_true(db[i] == 0.0F);
}

/* In mixed precision halves are widened, and their gradients are halves. */
static void halves_are_widened(void **state)
{
    (void)state;
    const int axis = 1;
    for (size_t h = 0; h < TEST_COUNT(halves); h++) {
        ls_tensor *x = ls_cast(tape, matrix(4, 3), halves[h]);
        assert_ok(ls_tape_set_autocast(tape, halves[h]));
        assert_ok(ls_tape_watch(tape, x));
        ls_tensor *y = ls_div(tape, ls_add(tape, x, vector(3)), matrix(4, 1));
        assert_type(y, LS_F32);
        y = ls_add(tape, ls_max_axes(tape, x, &axis, 1, LS_AXES_KEEP), y);
        y = ls_mean_axes(tape,
                         ls_expand(tape, y, 3, (const int64_t[]){2, 4, 3}),
                         &axis, 1, LS_AXES_DROP);
        assert_type(y, LS_F32);
        assert_ok(ls_backward(tape, ls_sum(tape, y), 1.0));
        assert_type(ls_tape_grad(tape, x), halves[h]);
        ls_tape_reset(tape);
        assert_ok(ls_tape_set_autocast(tape, LS_F32));
    }
    ls_tensor *half = ls_cast(tape, matrix(2, 3), LS_BF16);
    assert_fails(ls_div(tape, half, half), LS_ERR_DTYPE, "div");
}

/* More elements than f32 can count one by one share a gradient. */
static void many_equal_largest(void **state)
{
    (void)state;
    const int64_t n = ((int64_t)1 << 24) + 2;
    const lsi_axes axes = {2, {n, 2}, {true, false}};
    float *x = calloc((size_t)n * 2, sizeof(float));
    float *dx = malloc((size_t)n * 2 * sizeof(float));
    const float y[] = {0, 0}, dy[] = {(float)n, (float)(2 * n)};
    uint64_t counts[2];
    assert_non_null(x);
    assert_non_null(dx);
    lsi_axes_max_backward(&axes, dx, dy, x, y, counts);
    assert_true(counts[0] == (uint64_t)n && counts[1] == (uint64_t)n);
    assert_true(dx[0] == 1 && dx[1] == 2 && dx[2 * n - 1] == 2);
    free(x);
    free(dx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(any_shapes_broadcast),
        CASE(large_shapes_broadcast),
        CASE(what_does_not_broadcast),
        CASE(any_axes_are_reduced),
        CASE(large_sums),
        CASE(largest_of_nan),
        CASE(many_equal_largest),
        CASE(axes_that_are_refused),
        CASE(nothing_at_all),
        CASE(halves_are_widened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
