/*
 * Operations that choose elements, apart from their gradients: any shapes
 * against loops, views, empty tensors, types, and what is refused.
 */
#include <math.h>

#include "ops_fixture.h"
#include "shapes.h"
#include "testing.h"

/* ---- where --------------------------------------------------------------- */

static ls_tensor *mask_of(int ndim, const int64_t *shape)
{
    ls_tensor *mask = ls_tape_output(tape, LS_U8, ndim, shape);
    uint8_t *data = tensor_data(mask);
    for (int64_t i = 0; i < ls_tensor_count(mask); i++)
        data[i] = draw(2) == 0 ? 0 : (uint8_t)(1 + draw(255));
    return mask;
}

/* Where element `index` of a shape is in a tensor that is repeated to it. */
static int64_t offset_in(const ls_tensor *t, int ndim, const int64_t *index)
{
    int64_t offset = 0;
    for (int d = 0; d < t->ndim; d++) {
        const int64_t i = index[d + ndim - t->ndim];
        offset += t->shape[d] == 1 ? 0 : i * t->strides[d];
    }
    return offset;
}

static float float_at(const ls_tensor *t, int ndim, const int64_t *index)
{
    return ((const float *)tensor_data(t))[offset_in(t, ndim, index)];
}

static void check_where(ls_tensor *mask, ls_tensor *a, ls_tensor *b)
{
    const ls_tensor *y = ls_where(tape, mask, a, b);
    assert_ok(ls_tape_status(tape));
    const uint8_t *chosen = tensor_data(mask);
    const float *got = tensor_data(y);
    int64_t index[LS_MAX_DIMS];
    for (int64_t i = 0; i < y->count; i++) {
        place_of(y->ndim, y->shape, i, index);
        const bool first = chosen[offset_in(mask, y->ndim, index)] != 0;
        assert_true(got[i] == float_at(first ? a : b, y->ndim, index));
    }
}

/* The last dimensions of the shape, of which some become 1. */
static int part_of(int ndim, const int64_t *shape, int64_t *part)
{
    const int own = (int)draw(ndim + 1);
    for (int d = 0; d < own; d++)
        part[d] = draw(3) == 0 ? 1 : shape[ndim - own + d];
    return own;
}

static void any_shapes_are_chosen_from(void **state)
{
    (void)state;
    for (int round = 0; round < 200; round++) {
        const int ndim = 1 + (int)draw(LS_MAX_DIMS);
        int64_t shape[LS_MAX_DIMS], part[3][LS_MAX_DIMS];
        int n[3];
        for (int d = 0; d < ndim; d++)
            shape[d] = 1 + draw(ndim < 4 ? 40 : 5);
        for (int i = 0; i < 3; i++)
            n[i] = part_of(ndim, shape, part[i]);
        lsi_threads_set(1 + round % 3);
        check_where(mask_of(n[0], part[0]),
                    perhaps_turned(random_tensor(n[1], part[1], 3 + drawn)),
                    perhaps_turned(random_tensor(n[2], part[2], 4 + drawn)));
        ls_tape_reset(tape);
    }
}

static void views_and_empty_conditions(void **state)
{
    (void)state;
    const int64_t shape[] = {3, 4}, none[] = {0, 4};
    ls_tensor *turned = ls_transpose(tape, mask_of(2, shape), 0, 1);
    check_where(turned, matrix(4, 3), vector(3));
    const ls_tensor *y =
        ls_where(tape, mask_of(2, none), matrix(1, 4), vector(4));
    assert_int_equal(ls_tensor_count(y), 0);
    assert_int_equal(ls_tensor_ndim(y), 2);
}

/* Elements that are not chosen are not read: a NaN has no effect. */
static void what_is_not_taken_does_not_matter(void **state)
{
    (void)state;
    const uint8_t taken[] = {1, 0};
    const int64_t two = 2;
    ls_tensor *mask = ls_tape_output(tape, LS_U8, 1, &two);
    memcpy(tensor_data(mask), taken, sizeof taken);
    ls_tensor *a = vector(2), *b = vector(2);
    ((float *)tensor_data(a))[1] = NAN;
    ((float *)tensor_data(b))[0] = INFINITY;
    assert_ok(ls_tape_watch(tape, a));
    assert_ok(ls_tape_watch(tape, b));
    ls_tensor *y = ls_where(tape, mask, a, b);
    assert_true(isfinite(((float *)tensor_data(y))[0]));
    assert_ok(ls_backward(tape, ls_sum(tape, y), 2.0));
    const float *da = tensor_data(ls_tape_grad(tape, a));
    const float *db = tensor_data(ls_tape_grad(tape, b));
    assert_true(da[0] == 2 && da[1] == 0 && db[0] == 0 && db[1] == 2);
}

static void conditions_that_are_refused(void **state)
{
    (void)state;
    const int64_t shape[] = {2, 3};
    assert_fails(
        ls_where(tape, matrix(2, 3), matrix(2, 3), matrix(2, 3)), LS_ERR_DTYPE,
        "where: a tensor of shape (2, 3) has dtype f32; it must be u8");
    assert_fails(
        ls_where(tape, mask_of(2, shape), mask_of(2, shape), matrix(2, 3)),
        LS_ERR_DTYPE, "has dtype u8; it must be f32");
    assert_fails(ls_where(tape, mask_of(2, shape), matrix(2, 3), vector(2)),
                 LS_ERR_SHAPE, "where: shapes (2, 3) and (2) do not broadcast");
    assert_fails(ls_where(tape, mask_of(2, shape), vector(3), vector(2)),
                 LS_ERR_SHAPE, "where: shapes (2, 3) and (2) do not broadcast");
}

/* In mixed precision halves are widened. */
static void halves_are_chosen_from(void **state)
{
    (void)state;
    const int64_t shape[] = {2, 3};
    ls_tensor *half = ls_cast(tape, matrix(2, 3), LS_BF16);
    assert_fails(ls_where(tape, mask_of(2, shape), half, matrix(2, 3)),
                 LS_ERR_DTYPE, "has dtype bf16; it must be f32");
    assert_ok(ls_tape_set_autocast(tape, LS_BF16));
    half = ls_cast(tape, matrix(2, 3), LS_BF16);
    assert_type(ls_where(tape, mask_of(2, shape), half, matrix(2, 3)), LS_F32);
}

/* ---- comparisons --------------------------------------------------------- */

typedef struct comparison {
    const char *name;
    ls_tensor *(*compute)(ls_tape *tape, ls_tensor *a, ls_tensor *b);
    bool less, equal, greater; /* where it is true */
} comparison;

static const comparison comparisons[] = {
    {"lt", ls_lt, .less = true},
    {"le", ls_le, .less = true, .equal = true},
    {"gt", ls_gt, .greater = true},
    {"ge", ls_ge, .equal = true, .greater = true},
    {"eq", ls_eq, .equal = true},
};

static bool expected_of(const comparison *c, double a, double b)
{
    const double difference = a - b; /* exact enough for its sign */
    if (isnan(a) || isnan(b))
        return false;
    if (a == b || difference == 0)
        return c->equal;
    return difference < 0 ? c->less : c->greater;
}

static void check_compared(const comparison *c, ls_tensor *a, ls_tensor *b)
{
    const ls_tensor *y = c->compute(tape, a, b);
    assert_ok(ls_tape_status(tape));
    assert_int_equal(ls_tensor_dtype(y), LS_U8);
    const uint8_t *got = tensor_data(y);
    int64_t index[LS_MAX_DIMS];
    for (int64_t i = 0; i < y->count; i++) {
        place_of(y->ndim, y->shape, i, index);
        const double x = (double)float_at(a, y->ndim, index);
        const double z = (double)float_at(b, y->ndim, index);
        if (got[i] != expected_of(c, x, z))
            fail_msg("%s of %g and %g is %d", c->name, x, z, got[i]);
    }
}

/* Few different values, so that many are equal. */
static ls_tensor *steps_of(int ndim, const int64_t *shape)
{
    ls_tensor *t = random_tensor(ndim, shape, 3 + drawn);
    float *data = tensor_data(t);
    for (int64_t i = 0; i < t->count; i++)
        data[i] = (float)draw(4) - 1.5F;
    return t;
}

static void any_shapes_are_compared(void **state)
{
    (void)state;
    for (int round = 0; round < 100; round++) {
        const int ndim = 1 + (int)draw(LS_MAX_DIMS);
        int64_t shape[LS_MAX_DIMS], part[2][LS_MAX_DIMS];
        int n[2];
        for (int d = 0; d < ndim; d++)
            shape[d] = draw(ndim < 4 ? 40 : 5) + (round % 8 != 0);
        for (int i = 0; i < 2; i++)
            n[i] = part_of(ndim, shape, part[i]);
        lsi_threads_set(1 + round % 3);
        for (size_t i = 0; i < TEST_COUNT(comparisons); i++)
            check_compared(&comparisons[i],
                           perhaps_turned(steps_of(n[0], part[0])),
                           perhaps_turned(steps_of(n[1], part[1])));
        ls_tape_reset(tape);
    }
}

static void special_numbers_are_compared(void **state)
{
    static const float special[] = {-INFINITY, -1, -0.0F,    0,
                                    1e-45F,    1,  INFINITY, NAN};
    enum { N = TEST_COUNT(special) };
    (void)state;
    ls_tensor *a = matrix(N, 1), *b = vector(N);
    memcpy(tensor_data(a), special, sizeof special);
    memcpy(tensor_data(b), special, sizeof special);
    for (size_t i = 0; i < TEST_COUNT(comparisons); i++) {
        check_compared(&comparisons[i], a, b);
        for (size_t j = 0; j < N; j++)
            check_compared(&comparisons[i], a,
                           ls_scalar(tape, (double)special[j]));
    }
}

/* The chosen elements get the gradient; the scalar has none. */
static void comparisons_are_conditions(void **state)
{
    (void)state;
    const float values[] = {1, 3, NAN};
    ls_tensor *x = vector(3), *limit = ls_scalar(tape, 2.5);
    memcpy(tensor_data(x), values, sizeof values);
    assert_ok(ls_tape_watch(tape, x));
    ls_tensor *y = ls_where(tape, ls_gt(tape, x, limit), limit, x);
    const float *got = tensor_data(y);
    assert_true(got[0] == 1 && got[1] == 2.5F && isnan(got[2]));
    assert_ok(ls_backward(tape, ls_sum(tape, y), 1.0));
    const float *dx = tensor_data(ls_tape_grad(tape, x));
    assert_true(dx[0] == 1 && dx[1] == 0 && dx[2] == 1);
}

static void comparisons_that_are_refused(void **state)
{
    (void)state;
    const int64_t shape[] = {2, 3};
    assert_fails(ls_lt(tape, matrix(2, 3), vector(2)), LS_ERR_SHAPE,
                 "lt: shapes (2, 3) and (2) do not broadcast");
    assert_fails(ls_eq(tape, mask_of(2, shape), vector(3)), LS_ERR_DTYPE,
                 "has dtype u8; it must be f32");
    ls_tensor *half = ls_cast(tape, matrix(2, 3), LS_BF16);
    assert_fails(ls_ge(tape, half, vector(3)), LS_ERR_DTYPE,
                 "has dtype bf16; it must be f32");
    assert_ok(ls_tape_set_autocast(tape, LS_BF16));
    half = ls_cast(tape, matrix(2, 3), LS_BF16);
    assert_type(ls_ge(tape, half, vector(3)), LS_U8);
}

/* ---- take_along, argmax -------------------------------------------------- */

/* Extents that draw makes, of which the axis of `indices` has another. */
static ls_tensor *indices_for(const ls_tensor *x, int axis)
{
    int64_t shape[LS_MAX_DIMS];
    memcpy(shape, x->shape, sizeof shape);
    shape[axis] = 1 + draw(7);
    ls_tensor *indices = ls_tape_output(tape, LS_I64, x->ndim, shape);
    int64_t *data = tensor_data(indices);
    for (int64_t i = 0; i < ls_tensor_count(indices); i++)
        data[i] = draw(x->shape[axis]);
    return indices;
}

static void check_take_along(ls_tensor *x, int axis)
{
    ls_tensor *indices = indices_for(x, axis);
    const ls_tensor *y = ls_take_along(tape, x, indices, axis);
    assert_ok(ls_tape_status(tape));
    assert_true(lsi_shape_equal(y, indices));
    const int64_t *places = tensor_data(indices);
    const float *got = tensor_data(y);
    int64_t index[LS_MAX_DIMS];
    for (int64_t i = 0; i < y->count; i++) {
        place_of(y->ndim, y->shape, i, index);
        index[axis] = places[i];
        assert_true(got[i] == at(x, index));
    }
}

static void check_argmax(ls_tensor *x, int axis)
{
    ls_tensor *y = ls_argmax(tape, x, axis, LS_AXES_DROP);
    ls_tensor *kept = ls_argmax(tape, x, axis, LS_AXES_KEEP);
    const ls_tensor *most = ls_max_axes(tape, x, &axis, 1, LS_AXES_KEEP);
    const ls_tensor *taken = ls_take_along(tape, x, kept, axis);
    assert_ok(ls_tape_status(tape));
    assert_type(y, LS_I64);
    assert_int_equal(y->ndim, x->ndim - 1);
    const int64_t *places = tensor_data(y);
    const float *largest = tensor_data(most);
    const size_t bytes = (size_t)most->count * sizeof *largest;
    assert_true(lsi_shape_equal(taken, most));
    assert_memory_equal(tensor_data(taken), largest, bytes);
    int64_t index[LS_MAX_DIMS];
    for (int64_t i = 0; i < most->count; i++) {
        place_of(most->ndim, most->shape, i, index);
        index[axis] = places[i];
        assert_true(at(x, index) == largest[i]);
        while (index[axis]-- > 0)
            assert_true(at(x, index) < largest[i]);
    }
}

static void any_axis_of_any_shape(void **state)
{
    (void)state;
    for (int round = 0; round < 200; round++) {
        const int ndim = 1 + (int)draw(LS_MAX_DIMS);
        int64_t shape[LS_MAX_DIMS];
        for (int d = 0; d < ndim; d++)
            shape[d] = 1 + draw(ndim < 4 ? 30 : 5);
        ls_tensor *x = perhaps_turned(random_tensor(ndim, shape, 2 + drawn));
        const int axis = (int)draw(ndim);
        lsi_threads_set(1 + round % 3);
        check_take_along(x, axis);
        check_argmax(x, axis);
        ls_tape_reset(tape);
    }
}

/* The sum does not depend on the number of threads. */
static void gradients_of_many_lanes(void **state)
{
    (void)state;
    float first[2][9][900];
    for (int threads = 1; threads < 4; threads++) {
        lsi_threads_set(threads);
        drawn = 1;
        ls_tensor *x = random_tensor(3, (const int64_t[]){2, 9, 900}, 3);
        assert_ok(ls_tape_watch(tape, x));
        ls_tensor *y = ls_take_along(tape, x, indices_for(x, 1), 1);
        ls_tensor *loss = ls_sum(tape, ls_mul(tape, y, y));
        assert_ok(ls_backward(tape, loss, 1.0));
        const float *dx = tensor_data(ls_tape_grad(tape, x));
        if (threads == 1)
            memcpy(first, dx, sizeof first);
        assert_memory_equal(first, dx, sizeof first);
        ls_tape_reset(tape);
    }
}

static void ties_and_what_is_not_a_number(void **state)
{
    (void)state;
    const float values[] = {1, 3, 3, NAN, 5, NAN, -INFINITY, -INFINITY, -2};
    ls_tensor *x = matrix(3, 3);
    memcpy(tensor_data(x), values, sizeof values);
    const int64_t *y = tensor_data(ls_argmax(tape, x, 1, LS_AXES_DROP));
    assert_int_equal(y[0], 1);
    assert_int_equal(y[1], 0);
    assert_int_equal(y[2], 2);
}

static void places_that_are_refused(void **state)
{
    (void)state;
    const int64_t far[] = {0, 3}, below[] = {0, -1};
    assert_fails(ls_take_along(tape, vector(3), labels_of(far, 2), 0),
                 LS_ERR_ARGUMENT,
                 "take_along: index 1 is 3; it must be at least 0 and below 3");
    assert_fails(ls_take_along(tape, vector(3), labels_of(below, 2), 0),
                 LS_ERR_ARGUMENT, "index 1 is -1");
    assert_fails(ls_take_along(tape, vector(3), labels_of(far, 2), 1),
                 LS_ERR_ARGUMENT, "take_along: the shape (3) has no axis 1");
    assert_fails(ls_take_along(tape, matrix(2, 3), labels_of(far, 2), 0),
                 LS_ERR_SHAPE,
                 "indices of shape (2) do not fit x of shape (2, 3)");
    assert_fails(ls_take_along(tape, vector(3), vector(2), 0), LS_ERR_DTYPE,
                 "has dtype f32; it must be i64");
    assert_fails(ls_argmax(tape, vector(3), -1, LS_AXES_DROP), LS_ERR_ARGUMENT,
                 "argmax: the shape (3) has no axis -1");
    assert_fails(ls_argmax(tape, matrix(3, 0), 1, LS_AXES_DROP), LS_ERR_SHAPE,
                 "argmax: axis 1 of shape (3, 0) has 0 elements");
    assert_int_equal(
        ls_tensor_count(ls_argmax(tape, matrix(3, 0), 0, LS_AXES_DROP)), 0);
    ls_tensor *none = ls_take_along(tape, vector(3), labels_of(far, 0), 0);
    assert_int_equal(ls_tensor_count(none), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(any_shapes_are_chosen_from),
        CASE(views_and_empty_conditions),
        CASE(what_is_not_taken_does_not_matter),
        CASE(conditions_that_are_refused),
        CASE(halves_are_chosen_from),
        CASE(any_shapes_are_compared),
        CASE(special_numbers_are_compared),
        CASE(comparisons_are_conditions),
        CASE(comparisons_that_are_refused),
        CASE(any_axis_of_any_shape),
        CASE(gradients_of_many_lanes),
        CASE(ties_and_what_is_not_a_number),
        CASE(places_that_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
