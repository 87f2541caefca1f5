/*
 * Joining, cutting and batches of products, apart from their gradients: shapes
 * of any rank against loops, views, empty tensors, types, and what is refused.
 */
#include <math.h>

#include "shapes.h"

/* ---- joining and cutting ------------------------------------------------- */

/* A concatenation that is cut again gives the parts, views among them. */
static void parts_come_back(void **state)
{
    (void)state;
    for (int round = 0; round < 60; round++) {
        int64_t shape[4] = {1 + draw(4), 1 + draw(4), 1 + draw(4), 1 + draw(9)};
        const int axis = (int)draw(4), n = 1 + (int)draw(4);
        ls_tensor *parts[4];
        int64_t begin = 0;
        for (int i = 0; i < n; i++) {
            shape[axis] = draw(4);
            parts[i] = perhaps_turned(random_tensor(4, shape, 8 + drawn));
            if (parts[i]->shape[axis] != shape[axis] ||
                (axis < 2 ? false : parts[i]->strides[3] != 1))
                parts[i] = random_tensor(4, shape, 8 + drawn);
        }
        ls_tensor *y = ls_concat(tape, parts, n, axis);
        assert_ok(ls_tape_status(tape));
        for (int i = 0; i < n; i++) {
            const int64_t end = begin + parts[i]->shape[axis];
            ls_tensor *part = ls_narrow(tape, y, axis, begin, end);
            const ls_tensor *off = ls_sub(tape, part, parts[i]);
            for (int64_t e = 0; e < off->count; e++)
                assert_true(((const float *)tensor_data(off))[e] == 0.0F);
            begin = end;
        }
        ls_tape_reset(tape);
    }
}

static void concat_keeps_types(void **state)
{
    (void)state;
    const int64_t numbers[] = {4, 5, 6};
    ls_tensor *whole = labels_of(numbers, 3), *f32 = vector(3);
    ls_tensor *y = ls_concat(tape, (ls_tensor *const[]){whole, whole}, 2, 0);
    assert_int_equal(ls_tensor_dtype(y), LS_I64);
    assert_int_equal(((const int64_t *)tensor_data(y))[4], 5);
    ls_tensor *half = ls_cast(tape, f32, LS_BF16);
    assert_type(ls_concat(tape, (ls_tensor *const[]){half, half}, 2, 0),
                LS_BF16);
    assert_fails(ls_concat(tape, (ls_tensor *const[]){f32, half}, 2, 0),
                 LS_ERR_DTYPE,
                 "part 0 has dtype f32, but part 1 has dtype bf16");
    f32 = vector(3);
    half = ls_cast(tape, f32, LS_BF16);
    assert_ok(ls_tape_set_autocast(tape, LS_BF16));
    assert_ok(ls_tape_watch(tape, half));
    y = ls_concat(tape, (ls_tensor *const[]){f32, half}, 2, 0);
    assert_type(y, LS_F32);
    assert_ok(ls_backward(tape, ls_sum(tape, y), 1.0));
    assert_type(ls_tape_grad(tape, half), LS_BF16);
    assert_true(widened(ls_tape_grad(tape, half), 2) == 1.0);
    assert_ok(ls_tape_set_autocast(tape, LS_F32));
}

static void parts_that_are_refused(void **state)
{
    (void)state;
    ls_tensor *const parts[] = {matrix(2, 3), matrix(2, 4)};
    assert_fails(ls_concat(tape, parts, 2, 0), LS_ERR_SHAPE,
                 "shapes (2, 3) and (2, 4) may differ only along axis 0");
    ls_tensor *one[] = {matrix(2, 3), NULL};
    assert_fails(ls_concat(tape, one, 1, 2), LS_ERR_ARGUMENT,
                 "the shape (2, 3) has no axis 2");
    assert_fails(ls_concat(tape, one, 0, 0), LS_ERR_ARGUMENT, "got 0 parts");
    one[0] = matrix(2, 3);
    assert_fails(ls_concat(tape, one, 2, 0), LS_ERR_ARGUMENT, "input 1");
    assert_fails(ls_slice(tape, matrix(2, 3), 1, 0, 3, 0), LS_ERR_ARGUMENT,
                 "step is 0");
    assert_fails(ls_slice(tape, matrix(2, 3), 1, 0, 4, 2), LS_ERR_ARGUMENT,
                 "0 to 4");
}

/* Copies of transposed views: parts and wholes of squares, in any place. */
static void transposed_copies(void **state)
{
    (void)state;
    static const int64_t shapes[][4] = {
        {3, 70, 2, 130}, {1, 1, 200, 65}, {2, 17, 33, 16}, {1, 64, 1, 64}};
    for (size_t s = 0; s < TEST_COUNT(shapes); s++)
        for (int d = 0; d < 3; d++)
            for (int threads = 1; threads < 3; threads++) {
                lsi_threads_set(threads);
                ls_tensor *x = random_tensor(4, shapes[s], 4);
                ls_tensor *view = ls_transpose(tape, x, d, 3);
                const ls_tensor *y =
                    ls_reshape(tape, view, 1, (const int64_t[]){-1});
                int64_t index[4];
                for (int64_t i = 0; i < y->count; i++) {
                    place_of(4, view->shape, i, index);
                    assert_true(((const float *)tensor_data(y))[i] ==
                                at(view, index));
                }
                ls_tape_reset(tape);
            }
}

static void slices(void **state)
{
    (void)state;
    ls_tensor *x = matrix(7, 10);
    for (int64_t step = 1; step < 12; step++) {
        const ls_tensor *y = ls_slice(tape, x, 1, 2, 9, step);
        assert_int_equal(y->shape[1], (7 + step - 1) / step);
        for (int64_t r = 0; r < 7; r++)
            for (int64_t i = 0; i < y->shape[1]; i++)
                assert_true(at(y, (const int64_t[]){r, i}) ==
                            at(x, (const int64_t[]){r, 2 + i * step}));
    }
    assert_int_equal(ls_slice(tape, x, 0, 3, 3, 2)->count, 0);
}

/* ---- products ------------------------------------------------------------ */

static void check_products(ls_tensor *a, ls_tensor *b)
{
    const ls_tensor *y = ls_matmul(tape, a, b);
    assert_ok(ls_tape_status(tape));
    int64_t index[LS_MAX_DIMS];
    const int64_t terms = a->shape[a->ndim - 1];
    for (int64_t i = 0; i < y->count; i++) {
        place_of(y->ndim, y->shape, i, index);
        const int64_t row = index[y->ndim - 2], col = index[y->ndim - 1];
        double want = 0.0, size = 0.0;
        for (int64_t k = 0; k < terms; k++) {
            int64_t p[LS_MAX_DIMS], q[LS_MAX_DIMS];
            for (int d = 0; d < y->ndim - 2; d++) {
                const int da = d - y->ndim + a->ndim;
                const int db = d - y->ndim + b->ndim;
                if (da >= 0)
                    p[da] = a->shape[da] == 1 ? 0 : index[d];
                if (db >= 0)
                    q[db] = b->shape[db] == 1 ? 0 : index[d];
            }
            p[a->ndim - 2] = row;
            p[a->ndim - 1] = q[b->ndim - 2] = k;
            q[b->ndim - 1] = col;
            want += (double)at(a, p) * (double)at(b, q);
            size += fabs((double)at(a, p) * (double)at(b, q));
        }
        assert_true(fabs((double)at(y, index) - want) <=
                    (double)(terms + 2) * size * 0x1p-24);
    }
}

/* Of matrices (rows, cols), or stored the other way round. */
static ls_tensor *matrices(int batch_dims, const int64_t *batch, int64_t rows,
                           int64_t cols)
{
    int64_t shape[LS_MAX_DIMS];
    const int own = (int)draw(batch_dims + 1);
    const bool turned = draw(2) == 0;
    for (int d = 0; d < own; d++)
        shape[d] = draw(3) == 0 ? 1 : batch[batch_dims - own + d];
    shape[own] = turned ? cols : rows;
    shape[own + 1] = turned ? rows : cols;
    ls_tensor *t = random_tensor(own + 2, shape, 6 + drawn);
    return turned ? ls_transpose(tape, t, own, own + 1) : t;
}

static void batches_of_products(void **state)
{
    (void)state;
    for (int round = 0; round < 200; round++) {
        const int dims = 1 + (int)draw(3);
        int64_t batch[4];
        for (int d = 0; d < dims; d++)
            batch[d] = 1 + draw(4);
        const int64_t m = 1 + draw(9), n = 1 + draw(20), k = draw(12);
        lsi_threads_set(1 + round % 2);
        check_products(matrices(dims, batch, m, k),
                       matrices(dims, batch, k, n));
        ls_tape_reset(tape);
    }
}

/* Heads (N, T, H, d) as (N, H, T, d): q k^T, and its product with v. */
static void heads(void **state)
{
    (void)state;
    ls_tensor *x[3];
    for (int i = 0; i < 3; i++)
        x[i] = ls_transpose(tape, image(2, 17, 3, 16), 1, 2);
    ls_tensor *kt = ls_transpose(tape, x[1], 2, 3);
    check_products(x[0], kt);
    check_products(ls_matmul(tape, x[0], kt), x[2]);
}

/* An empty batch, empty matrices, sums of nothing. */
static void empty_products(void **state)
{
    (void)state;
    const int64_t none[] = {0, 3, 4}, some[] = {2, 4, 5}, flat[] = {2, 3, 0};
    ls_tensor *a = random_tensor(3, none, 1), *w = matrix(4, 5);
    assert_ok(ls_tape_watch(tape, w));
    ls_tensor *y = ls_matmul(tape, a, w);
    assert_int_equal(y->count, 0);
    assert_ok(ls_backward(tape, ls_sum(tape, y), 1.0));
    const float *dw = tensor_data(ls_tape_grad(tape, w));
    for (int i = 0; i < 20; i++)
        assert_true(dw[i] == 0.0F);
    ls_tape_reset(tape);
    y = ls_matmul(tape, random_tensor(3, flat, 1),
                  random_tensor(3, (const int64_t[]){2, 0, 5}, 1));
    assert_int_equal(y->count, 30);
    assert_true(at(y, (const int64_t[]){1, 2, 4}) == 0.0F);
    assert_fails(
        ls_matmul(tape, random_tensor(3, none, 1), random_tensor(3, some, 1)),
        LS_ERR_SHAPE, "cannot multiply shapes (0, 3, 4) and (2, 4, 5)");
    assert_fails(ls_matmul(tape, matrix(3, 4), vector(4)), LS_ERR_SHAPE,
                 "(3, 4) and (4)");
}

/* Half types: one rounding of what an f32 product of the same halves gives. */
static void products_of_halves(void **state)
{
    (void)state;
    for (size_t h = 0; h < TEST_COUNT(halves); h++) {
        assert_ok(ls_tape_set_autocast(tape, halves[h]));
        ls_tensor *a = random_tensor(3, (const int64_t[]){3, 5, 7}, 1);
        ls_tensor *b = random_tensor(3, (const int64_t[]){3, 4, 7}, 2);
        assert_ok(ls_tape_watch(tape, a));
        ls_tensor *y = ls_matmul(tape, a, ls_transpose(tape, b, 1, 2));
        assert_type(y, halves[h]);
        for (int64_t i = 0; i < 60; i++) {
            const int64_t p = i / 20 * 35 + i / 4 % 5 * 7;
            const int64_t q = i / 20 * 28 + i % 4 * 7;
            double want = 0.0, size = 0.0;
            for (int64_t k = 0; k < 7; k++) {
                const double term =
                    rounded(a, p + k, halves[h]) * rounded(b, q + k, halves[h]);
                want += term;
                size += fabs(term);
            }
            assert_true(fabs(widened(y, i) - want) <=
                        unit_of(halves[h]) * fabs(want) + 9 * 0x1p-23 * size);
        }
        assert_ok(ls_backward(tape, ls_sum(tape, y), 1.0));
        assert_type(ls_tape_grad(tape, a), LS_F32);
        ls_tape_reset(tape);
        assert_ok(ls_tape_set_autocast(tape, LS_F32));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(parts_come_back),
        CASE(concat_keeps_types),
        CASE(parts_that_are_refused),
        CASE(slices),
        CASE(transposed_copies),
        CASE(batches_of_products),
        CASE(heads),
        CASE(empty_products),
        CASE(products_of_halves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
