/*
 * Copies between any types and strides, filling and reading, against a loop
 * over all indices that knows nothing of runs or merged dimensions.
 */
#include <math.h>

#include "base/half.h"
#include "model/tensor/tensor.h"
#include "testing.h"

static const ls_dtype dtypes[] = {LS_F32, LS_BF16, LS_F16,
                                  LS_I32, LS_I64,  LS_U8};

/* ---- an independent way to read and write one element -------------------- */

static void *address(const ls_tensor *t, int64_t linear)
{
    int64_t offset = 0;
    for (int d = t->ndim - 1; d >= 0; d--) {
        offset += linear % t->shape[d] * t->strides[d];
        linear /= t->shape[d];
    }
    return (char *)tensor_data(t) + offset * (int64_t)ls_dtype_size(t->dtype);
}

static double read_element(const ls_tensor *t, int64_t linear)
{
    const void *at = address(t, linear);
    switch (t->dtype) {
    case LS_F32:
        return *(const float *)at;
    case LS_BF16:
        return lsi_bf16_to_f32(*(const uint16_t *)at);
    case LS_F16:
        return lsi_f16_to_f32(*(const uint16_t *)at);
    case LS_I32:
        return *(const int32_t *)at;
    case LS_I64:
        return (double)*(const int64_t *)at;
    default:
        return *(const uint8_t *)at;
    }
}

static void write_f32(const ls_tensor *t, int64_t linear, float value)
{
    *(float *)address(t, linear) = value;
}

/* ---- shapes to copy between ---------------------------------------------- */

/* A view of shape (4, 3, 5), by another way each time. */
static ls_tensor *make_view(ls_dtype dtype, int variant)
{
    static const int64_t shapes[][3] = {
        {4, 3, 5}, {5, 3, 4}, {3, 4, 5}, {4, 3, 10}, {9, 3, 5}};
    ls_tensor *base = NULL, *view = NULL;
    assert_ok(ls_tensor_zeros(&base, dtype, 3, shapes[variant]));
    switch (variant) {
    case 0:
        return base;
    case 1:
        assert_ok(ls_tensor_transpose(base, 0, 2, &view));
        break;
    case 2:
        assert_ok(ls_tensor_transpose(base, 1, 0, &view));
        break;
    case 3:
        assert_ok(ls_tensor_narrow(base, 2, 4, 9, &view));
        break;
    default:
        assert_ok(ls_tensor_narrow(base, 0, 5, 9, &view));
        break;
    }
    ls_tensor_free(&base);
    return view;
}

enum { VARIANTS = 5, COUNT = 60 };

static void every_stride_and_type(void **state)
{
    (void)state;
    for (int from = 0; from < VARIANTS; from++) {
        for (int to = 0; to < VARIANTS; to++) {
            for (size_t d = 0; d < TEST_COUNT(dtypes); d++) {
                ls_tensor *src = make_view(LS_F32, from);
                ls_tensor *dst = make_view(dtypes[d], to);
                for (int i = 0; i < COUNT; i++)
                    write_f32(src, i, (float)i);
                assert_ok(ls_tensor_copy(dst, src));
                for (int i = 0; i < COUNT; i++)
                    assert_true(read_element(dst, i) == i);
                ls_tensor_free(&src);
                ls_tensor_free(&dst);
            }
        }
    }
}

/* Between any two types, by way of values that all of them hold. */
static void every_pair_of_types(void **state)
{
    (void)state;
    for (size_t a = 0; a < TEST_COUNT(dtypes); a++) {
        for (size_t b = 0; b < TEST_COUNT(dtypes); b++) {
            ls_tensor *first = make_view(LS_F32, 0);
            ls_tensor *src = make_view(dtypes[a], 1);
            ls_tensor *dst = make_view(dtypes[b], 3);
            for (int i = 0; i < COUNT; i++)
                write_f32(first, i, (float)(2 * i));
            assert_ok(ls_tensor_copy(src, first));
            assert_ok(ls_tensor_copy(dst, src));
            for (int i = 0; i < COUNT; i++)
                assert_true(read_element(dst, i) == 2 * i);
            ls_tensor_free(&first);
            ls_tensor_free(&src);
            ls_tensor_free(&dst);
        }
    }
}

/* Long enough for several gathered runs and for threads. */
static void long_runs(void **state)
{
    (void)state;
    const int64_t n = 100003;
    ls_tensor *wide = NULL, *column = NULL, *dense = NULL, *half = NULL;
    assert_ok(ls_tensor_zeros(&wide, LS_F32, 2, (const int64_t[]){n, 2}));
    assert_ok(ls_tensor_narrow(wide, 1, 1, 2, &column));
    for (int64_t i = 0; i < n; i++)
        write_f32(column, i, (float)i);
    assert_ok(ls_tensor_new(&dense, LS_F32, 2, (const int64_t[]){n, 1}));
    assert_ok(ls_tensor_new(&half, LS_BF16, 2, (const int64_t[]){n, 1}));
    assert_ok(ls_tensor_copy(dense, column));
    assert_ok(ls_tensor_copy(half, column));
    const float *got = tensor_data(dense);
    const uint16_t *halves = tensor_data(half);
    for (int64_t i = 0; i < n; i++) {
        assert_true(got[i] == (float)i);
        assert_int_equal(halves[i], lsi_bf16_from_f32((float)i));
    }
    assert_ok(ls_tensor_fill(half, 0.0));
    assert_ok(ls_tensor_copy(half, dense));
    halves = tensor_data(half);
    for (int64_t i = 0; i < n; i++)
        assert_int_equal(halves[i], lsi_bf16_from_f32((float)i));
    ls_tensor_free(&wide);
    ls_tensor_free(&column);
    ls_tensor_free(&dense);
    ls_tensor_free(&half);
}

static void big_integers_stay_exact(void **state)
{
    (void)state;
    int64_t from[2] = {INT64_C(9007199254740993), INT64_MIN};
    int64_t to[4] = {0};
    ls_tensor *src = NULL, *all = NULL, *dst = NULL;
    assert_ok(
        ls_tensor_wrap(&src, from, LS_I64, 2, (const int64_t[]){2, 1}, NULL));
    assert_ok(
        ls_tensor_wrap(&all, to, LS_I64, 2, (const int64_t[]){2, 2}, NULL));
    assert_ok(ls_tensor_narrow(all, 1, 1, 2, &dst));
    assert_ok(ls_tensor_copy(dst, src));
    assert_true(to[1] == from[0] && to[3] == from[1]);
    assert_true(to[0] == 0 && to[2] == 0);
    ls_tensor_free(&src);
    ls_tensor_free(&all);
    ls_tensor_free(&dst);
}

/* A copy onto itself is as if everything had been read first. */
static void overlapping(void **state)
{
    (void)state;
    float memory[9] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    ls_tensor *m = NULL, *t = NULL, *a = NULL, *b = NULL;
    assert_ok(
        ls_tensor_wrap(&m, memory, LS_F32, 2, (const int64_t[]){3, 3}, NULL));
    assert_ok(ls_tensor_transpose(m, 0, 1, &t));
    assert_ok(ls_tensor_copy(m, t));
    for (int i = 0; i < 9; i++)
        assert_true(memory[i] == (float)(i % 3 * 3 + i / 3));
    assert_ok(ls_tensor_narrow(m, 0, 0, 2, &a));
    assert_ok(ls_tensor_narrow(m, 0, 1, 3, &b));
    assert_ok(ls_tensor_copy(b, a));
    for (int i = 0; i < 3; i++) {
        assert_true(memory[3 + i] == (float)(3 * i));
        assert_true(memory[6 + i] == (float)(3 * i + 1));
    }
    ls_tensor_free(&m);
    ls_tensor_free(&t);
    ls_tensor_free(&a);
    ls_tensor_free(&b);
}

static void fill_and_item(void **state)
{
    (void)state;
    for (size_t d = 0; d < TEST_COUNT(dtypes); d++) {
        for (int variant = 0; variant < VARIANTS; variant++) {
            ls_tensor *t = make_view(dtypes[d], variant), *scalar = NULL;
            double value = 0.0;
            assert_ok(ls_tensor_fill(t, 17.0));
            for (int i = 0; i < COUNT; i++)
                assert_true(read_element(t, i) == 17.0);
            assert_ok(ls_tensor_new(&scalar, dtypes[d], 0, NULL));
            assert_ok(ls_tensor_fill(scalar, 5.0));
            assert_ok(ls_tensor_item(scalar, &value));
            assert_true(value == 5.0);
            assert_error(ls_tensor_item(t, &value), LS_ERR_SHAPE, "(4, 3, 5)");
            ls_tensor_free(&scalar);
            ls_tensor_free(&t);
        }
    }
}

static void fill_touches_nothing_else(void **state)
{
    (void)state;
    ls_tensor *base = NULL, *view = NULL;
    assert_ok(ls_tensor_zeros(&base, LS_F32, 2, (const int64_t[]){4, 5}));
    assert_ok(ls_tensor_narrow(base, 1, 1, 3, &view));
    assert_ok(ls_tensor_fill(view, 2.0));
    const float *data = tensor_data(base);
    for (int i = 0; i < 20; i++)
        assert_true(data[i] == (i % 5 == 1 || i % 5 == 2 ? 2.0F : 0.0F));
    ls_tensor_free(&view);
    ls_tensor_free(&base);
}

static void fill_rounds_and_refuses(void **state)
{
    (void)state;
    ls_tensor *t = NULL;
    double value = 0.0;
    assert_ok(ls_tensor_zeros(&t, LS_U8, 0, NULL));
    assert_ok(ls_tensor_fill(t, 254.6));
    assert_ok(ls_tensor_item(t, &value));
    assert_true(value == 255.0);
    assert_error(ls_tensor_fill(t, 256.0), LS_ERR_ARGUMENT, "256");
    assert_error(ls_tensor_fill(t, -1.0), LS_ERR_ARGUMENT, "-1");
    assert_error(ls_tensor_fill(t, NAN), LS_ERR_ARGUMENT, "nan");
    ls_tensor_free(&t);
    assert_ok(ls_tensor_zeros(&t, LS_BF16, 0, NULL));
    assert_ok(ls_tensor_fill(t, 0.1));
    assert_ok(ls_tensor_item(t, &value));
    assert_true(value == lsi_bf16_to_f32(lsi_bf16_from_f32(0.1F)));
    ls_tensor_free(&t);
    assert_ok(ls_tensor_zeros(&t, LS_I64, 0, NULL));
    assert_error(ls_tensor_fill(t, 0x1p63), LS_ERR_ARGUMENT, "i64");
    assert_ok(ls_tensor_fill(t, -0x1p63));
    ls_tensor_free(&t);
}

static void bad_copies(void **state)
{
    (void)state;
    ls_tensor *a = NULL, *b = NULL;
    assert_ok(ls_tensor_zeros(&a, LS_F32, 1, (const int64_t[]){3}));
    assert_ok(ls_tensor_zeros(&b, LS_F32, 2, (const int64_t[]){3, 1}));
    assert_error(ls_tensor_copy(a, b), LS_ERR_SHAPE, "(3, 1)");
    assert_error(ls_tensor_copy(a, NULL), LS_ERR_ARGUMENT, "NULL");
    assert_error(ls_tensor_fill(NULL, 1.0), LS_ERR_ARGUMENT, "NULL");
    assert_error(ls_tensor_item(a, NULL), LS_ERR_ARGUMENT, "NULL");
    ls_tensor_free(&a);
    ls_tensor_free(&b);
    assert_ok(ls_tensor_zeros(&a, LS_F32, 2, (const int64_t[]){0, 3}));
    assert_ok(ls_tensor_zeros(&b, LS_U8, 2, (const int64_t[]){0, 3}));
    assert_ok(ls_tensor_copy(a, b));
    assert_ok(ls_tensor_fill(a, 1.0));
    ls_tensor_free(&a);
    ls_tensor_free(&b);
}

/* A clone is dense and has separate memory, for all strides. */
static void clones_are_dense(void **state)
{
    (void)state;
    const float want[] = {0, 3, 1, 4, 2, 5};
    ls_tensor *t = NULL, *turned = NULL, *clone = NULL;
    assert_ok(ls_tensor_new(&t, LS_F32, 2, (const int64_t[]){2, 3}));
    for (int i = 0; i < 6; i++)
        ((float *)tensor_data(t))[i] = (float)i;
    assert_ok(ls_tensor_transpose(t, 0, 1, &turned));
    assert_ok(ls_tensor_clone(turned, &clone));
    assert_true(ls_tensor_is_contiguous(clone));
    assert_true(lsi_shape_equal(clone, turned));
    assert_ok(ls_tensor_fill(t, 9));
    assert_memory_equal(tensor_data(clone), want, sizeof want);
    ls_tensor_free(&clone);
    ls_tensor_free(&turned);
    ls_tensor_free(&t);
}

static void contiguous_copies_only_what_is_not(void **state)
{
    (void)state;
    ls_tensor *t = NULL, *turned = NULL, *dense = NULL;
    assert_ok(ls_tensor_zeros(&t, LS_F32, 2, (const int64_t[]){2, 3}));
    ((float *)tensor_data(t))[5] = 4;
    assert_ok(ls_tensor_contiguous(t, &dense));
    assert_ptr_equal(dense, t);
    ls_tensor_free(&dense);
    assert_ok(ls_tensor_transpose(t, 0, 1, &turned));
    assert_ok(ls_tensor_contiguous(turned, &dense));
    assert_ptr_not_equal(dense, turned);
    assert_true(ls_tensor_is_contiguous(dense));
    assert_true(((float *)tensor_data(dense))[5] == 4);
    ls_tensor_free(&dense);
    ls_tensor_free(&turned);
    ls_tensor_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_stride_and_type),
        cmocka_unit_test(every_pair_of_types),
        cmocka_unit_test(long_runs),
        cmocka_unit_test(big_integers_stay_exact),
        cmocka_unit_test(overlapping),
        cmocka_unit_test(fill_and_item),
        cmocka_unit_test(fill_touches_nothing_else),
        cmocka_unit_test(fill_rounds_and_refuses),
        cmocka_unit_test(bad_copies),
        cmocka_unit_test(clones_are_dense),
        cmocka_unit_test(contiguous_copies_only_what_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
