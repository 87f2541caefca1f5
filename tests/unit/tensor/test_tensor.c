/* Making tensors, their shapes, views, references and layouts. */
#include "base/memory.h"
#include "model/tensor/tensor.h"
#include "testing.h"

static size_t live_bytes(void)
{
    ls_memory_stats stats;
    ls_memory_total(&stats);
    return stats.live_bytes;
}

/* An f32 tensor with elements 0, 1, 2, ... */
static ls_tensor *counting(int ndim, const int64_t *shape)
{
    ls_tensor *tensor = NULL;
    assert_ok(ls_tensor_new(&tensor, LS_F32, ndim, shape));
    float *data = tensor_data(tensor);
    for (int64_t i = 0; i < ls_tensor_count(tensor); i++)
        data[i] = (float)i;
    return tensor;
}

static void made_as_asked(void **state)
{
    (void)state;
    const size_t before = live_bytes();
    ls_tensor *t = NULL;
    assert_ok(ls_tensor_zeros(&t, LS_I64, 3, (const int64_t[]){2, 3, 4}));
    assert_int_equal(ls_tensor_dtype(t), LS_I64);
    assert_int_equal(ls_tensor_ndim(t), 3);
    assert_int_equal(ls_tensor_count(t), 24);
    assert_int_equal(ls_tensor_shape(t)[1], 3);
    assert_int_equal(ls_tensor_strides(t)[0], 12);
    assert_true(ls_tensor_is_contiguous(t));
    assert_int_equal((uintptr_t)tensor_data(t) % 64, 0);
    for (int i = 0; i < 24; i++)
        assert_int_equal(((const int64_t *)tensor_data(t))[i], 0);
    assert_true(live_bytes() >= before + 24 * sizeof(int64_t));
    ls_tensor *same = ls_tensor_retain(t);
    ls_tensor_free(&t);
    assert_null(t);
    assert_int_equal(ls_tensor_count(same), 24);
    ls_tensor_free(&same);
    ls_tensor_free(&same);
    ls_tensor_free(NULL);
    assert_int_equal(live_bytes(), before);
}

static void scalars_and_empty_tensors(void **state)
{
    (void)state;
    ls_tensor *t = NULL, *view = NULL;
    assert_ok(ls_tensor_new(&t, LS_F32, 0, NULL));
    assert_int_equal(ls_tensor_count(t), 1);
    assert_true(ls_tensor_is_contiguous(t));
    ls_tensor_free(&t);
    assert_ok(ls_tensor_new(&t, LS_U8, 3, (const int64_t[]){5, 0, 7}));
    assert_int_equal(ls_tensor_count(t), 0);
    assert_true(ls_tensor_is_contiguous(t));
    assert_non_null(tensor_data(t));
    assert_ok(ls_tensor_narrow(t, 0, 5, 5, &view));
    assert_int_equal(ls_tensor_count(view), 0);
    ls_tensor_free(&view);
    assert_ok(ls_tensor_view(t, 2, (const int64_t[]){0, 3}, &view));
    ls_tensor_free(&view);
    ls_tensor_free(&t);
}

static void bad_requests(void **state)
{
    (void)state;
    ls_tensor *t = NULL;
    const int64_t ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    const int64_t huge[3] = {0, INT64_C(1) << 40, INT64_C(1) << 40};
    assert_error(ls_tensor_new(&t, LS_F32, 7, ones), LS_ERR_ARGUMENT, "7");
    assert_error(ls_tensor_new(&t, LS_F32, -1, ones), LS_ERR_ARGUMENT, "-1");
    assert_error(ls_tensor_new(&t, LS_F64, 1, ones), LS_ERR_DTYPE, "f64");
    assert_error(ls_tensor_new(&t, LS_I8, 1, ones), LS_ERR_DTYPE, "i8");
    assert_error(ls_tensor_new(&t, LS_F32, 2, (const int64_t[]){3, -2}),
                 LS_ERR_ARGUMENT, "(3, -2)");
    assert_error(ls_tensor_new(&t, LS_F32, 2, huge + 1), LS_ERR_ARGUMENT,
                 "too large for any memory");
    assert_error(ls_tensor_new(&t, LS_F32, 3, huge), LS_ERR_ARGUMENT,
                 "too large for any memory");
    assert_error(ls_tensor_new(&t, LS_F32, 1, NULL), LS_ERR_ARGUMENT, "NULL");
    assert_error(ls_tensor_new(NULL, LS_F32, 0, NULL), LS_ERR_ARGUMENT, "out");
    assert_error(ls_tensor_wrap(&t, NULL, LS_F32, 1, ones, NULL),
                 LS_ERR_ARGUMENT, "NULL");
    assert_null(t);
}

static void wrapped_memory(void **state)
{
    (void)state;
    float memory[6] = {0, 1, 2, 3, 4, 5};
    ls_tensor *t = NULL, *row = NULL;
    assert_ok(
        ls_tensor_wrap(&t, memory, LS_F32, 2, (const int64_t[]){2, 3}, NULL));
    assert_ptr_equal(tensor_data(t), memory);
    assert_ok(ls_tensor_narrow(t, 0, 1, 2, &row));
    assert_ptr_equal(tensor_data(row), memory + 3);
    ls_tensor_free(&t); /* the view keeps what it needs */
    assert_true(((const float *)tensor_data(row))[2] == 5.0F);
    ls_tensor_free(&row);
}

static void reshaped_and_transposed(void **state)
{
    (void)state;
    ls_tensor *t = counting(3, (const int64_t[]){2, 3, 4});
    ls_tensor *v = NULL, *w = NULL;
    assert_ok(ls_tensor_view(t, 2, (const int64_t[]){-1, 8}, &v));
    assert_int_equal(ls_tensor_shape(v)[0], 3);
    assert_ptr_equal(tensor_data(v), tensor_data(t));
    ls_tensor_free(&v);
    assert_ok(ls_tensor_transpose(t, 0, 2, &v)); /* (4, 3, 2) */
    assert_int_equal(ls_tensor_shape(v)[0], 4);
    assert_int_equal(ls_tensor_strides(v)[0], 1);
    assert_false(ls_tensor_is_contiguous(v));
    assert_error(ls_tensor_view(v, 1, (const int64_t[]){24}, &w),
                 LS_ERR_ARGUMENT, "not contiguous");
    assert_ok(ls_tensor_narrow(v, 0, 1, 3, &w)); /* (2, 3, 2) */
    assert_true(((const float *)tensor_data(w))[0] == 1.0F);
    assert_int_equal(ls_tensor_count(w), 12);
    ls_tensor_free(&w);
    ls_tensor_free(&v);
    ls_tensor_free(&t);
}

static void narrowed(void **state)
{
    (void)state;
    ls_tensor *t = counting(3, (const int64_t[]){2, 3, 4});
    ls_tensor *v = NULL, *w = NULL;
    assert_ok(ls_tensor_narrow(t, 1, 1, 2, &v)); /* (2, 1, 4) */
    assert_false(ls_tensor_is_contiguous(v));
    assert_ok(ls_tensor_narrow(v, 0, 1, 2, &w)); /* (1, 1, 4) */
    assert_true(ls_tensor_is_contiguous(w));
    assert_true(((const float *)tensor_data(w))[0] == 16.0F);
    ls_tensor_free(&w);
    ls_tensor_free(&v);
    ls_tensor_free(&t);
}

static void bad_views(void **state)
{
    (void)state;
    ls_tensor *t = counting(2, (const int64_t[]){2, 3});
    ls_tensor *v = NULL;
    assert_error(ls_tensor_view(t, 1, (const int64_t[]){5}, &v), LS_ERR_SHAPE,
                 "(2, 3) (6 elements)");
    assert_error(ls_tensor_view(t, 2, (const int64_t[]){-1, 4}, &v),
                 LS_ERR_SHAPE, "(-1, 4)");
    assert_error(ls_tensor_view(t, 2, (const int64_t[]){-1, 0}, &v),
                 LS_ERR_SHAPE, "(-1, 0)");
    assert_error(ls_tensor_view(t, 2, (const int64_t[]){-1, -1}, &v),
                 LS_ERR_ARGUMENT, "more than one");
    assert_error(ls_tensor_view(t, 2, (const int64_t[]){-2, -3}, &v),
                 LS_ERR_ARGUMENT, "negative");
    assert_error(ls_tensor_view(t, 9, (const int64_t[]){1}, &v),
                 LS_ERR_ARGUMENT, "9");
    assert_error(ls_tensor_narrow(t, 2, 0, 1, &v), LS_ERR_ARGUMENT, "2");
    assert_error(ls_tensor_narrow(t, 1, 2, 1, &v), LS_ERR_ARGUMENT, "2 to 1");
    assert_error(ls_tensor_narrow(t, 1, 0, 4, &v), LS_ERR_ARGUMENT, "0 to 4");
    assert_error(ls_tensor_transpose(t, 0, -1, &v), LS_ERR_ARGUMENT, "-1");
    assert_null(v);
    ls_tensor_free(&t);
}

/* ---- layouts ------------------------------------------------------------- */

static const lsi_layout layouts[] = {LSI_LAYOUT_PLAIN, LSI_LAYOUT_CHANNELS_LAST,
                                     LSI_LAYOUT_BLOCKED_8,
                                     LSI_LAYOUT_BLOCKED_16};

static int64_t block_of(lsi_layout layout, int64_t channels)
{
    switch (layout) {
    case LSI_LAYOUT_PLAIN:
        return 1;
    case LSI_LAYOUT_BLOCKED_8:
        return 8;
    case LSI_LAYOUT_BLOCKED_16:
        return 16;
    default:
        return channels;
    }
}

/* Where element (n, c, p) lies, p counting the pixels. */
static int64_t place(lsi_layout layout, int64_t channels, int64_t pixels,
                     const int64_t at[3])
{
    const int64_t b = block_of(layout, channels);
    return ((at[0] * (channels / b) + at[1] / b) * pixels + at[2]) * b +
           at[1] % b;
}

static void assert_layout_holds_counting(const ls_tensor *t, lsi_layout layout)
{
    const float *raw = lsi_tensor_raw(t);
    const int64_t *s = ls_tensor_shape(t);
    const int64_t pixels = s[2] * s[3];
    float want = 0.0F;
    for (int64_t n = 0; n < s[0]; n++) {
        for (int64_t c = 0; c < s[1]; c++) {
            for (int64_t p = 0; p < pixels; p++)
                assert_true(raw[place(layout, s[1], pixels,
                                      (const int64_t[]){n, c, p})] == want++);
        }
    }
}

static void every_layout_to_every_other(void **state)
{
    (void)state;
    for (size_t from = 0; from < TEST_COUNT(layouts); from++) {
        for (size_t to = 0; to < TEST_COUNT(layouts); to++) {
            ls_tensor *t = counting(4, (const int64_t[]){2, 32, 3, 5});
            assert_ok(lsi_tensor_set_layout(t, layouts[from]));
            assert_layout_holds_counting(t, layouts[from]);
            assert_ok(lsi_tensor_set_layout(t, layouts[to]));
            assert_int_equal(lsi_tensor_layout(t), layouts[to]);
            assert_layout_holds_counting(t, layouts[to]);
            const float *data = tensor_data(t); /* turns it plain */
            assert_int_equal(lsi_tensor_layout(t), LSI_LAYOUT_PLAIN);
            for (int64_t i = 0; i < ls_tensor_count(t); i++)
                assert_true(data[i] == (float)i);
            ls_tensor_free(&t);
        }
    }
}

/* Views, copies and single elements all see the plain order. */
static void layouts_are_invisible(void **state)
{
    (void)state;
    ls_tensor *t = counting(4, (const int64_t[]){1, 16, 2, 2});
    ls_tensor *plain = NULL, *view = NULL;
    assert_ok(lsi_tensor_set_layout(t, LSI_LAYOUT_BLOCKED_16));
    assert_ok(ls_tensor_new(&plain, LS_F32, 4, ls_tensor_shape(t)));
    assert_ok(ls_tensor_copy(plain, t));
    assert_layout_holds_counting(plain, LSI_LAYOUT_PLAIN);
    assert_ok(lsi_tensor_set_layout(t, LSI_LAYOUT_BLOCKED_16));
    assert_ok(ls_tensor_narrow(t, 1, 3, 4, &view));
    assert_true(((const float *)tensor_data(view))[1] == 13.0F);
    /* A plain storage that has a view is left to it. */
    assert_ok(lsi_tensor_set_layout(t, LSI_LAYOUT_BLOCKED_16));
    assert_true(((const float *)tensor_data(view))[1] == 13.0F);
    assert_layout_holds_counting(t, LSI_LAYOUT_BLOCKED_16);
    ls_tensor_free(&view);
    ls_tensor_free(&plain);
    ls_tensor_free(&t);
}

static void mapping_is_checked(void **state)
{
    (void)state;
    const int64_t shape[] = {2};
    ls_tensor *floats, *integers, *empty;
    float *f = NULL;
    int64_t *i = NULL;
    void *data = NULL;
    assert_ok(ls_tensor_new(&floats, LS_F32, 1, shape));
    assert_ok(ls_tensor_new(&integers, LS_I64, 1, shape));
    assert_ok(lsi_tensor_make_empty(&empty, LS_F32, 1, shape));
    assert_ok(ls_tensor_map_f32(floats, &f));
    assert_ok(ls_tensor_map_i64(integers, &i));
    assert_ptr_equal(f, tensor_data(floats));
    assert_ptr_equal(i, tensor_data(integers));
    assert_error(ls_tensor_map_f32(integers, &f), LS_ERR_DTYPE,
                 "ls_tensor_map_f32: the tensor has dtype i64; it must be f32");
    assert_error(ls_tensor_map_i64(floats, &i), LS_ERR_DTYPE, "it must be i64");
    assert_error(ls_tensor_map(empty, &data), LS_ERR_STATE,
                 "ls_params_allocate");
    assert_null(data);
    ls_tensor_free(&floats);
    ls_tensor_free(&integers);
    ls_tensor_free(&empty);
}

static void a_layout_change_may_fail(void **state)
{
    (void)state;
    ls_tensor *t = counting(4, (const int64_t[]){1, 16, 32, 32});
    assert_ok(lsi_tensor_set_layout(t, LSI_LAYOUT_BLOCKED_16));
    ls_memory_set_budget(live_bytes() + 16);
    void *data;
    assert_error(ls_tensor_map(t, &data), LS_ERR_BUDGET, "budget");
    ls_memory_set_budget(0);
    assert_layout_holds_counting(t, LSI_LAYOUT_BLOCKED_16);
    assert_non_null(tensor_data(t));
    ls_tensor_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(made_as_asked),
        cmocka_unit_test(scalars_and_empty_tensors),
        cmocka_unit_test(bad_requests),
        cmocka_unit_test(wrapped_memory),
        cmocka_unit_test(reshaped_and_transposed),
        cmocka_unit_test(narrowed),
        cmocka_unit_test(bad_views),
        cmocka_unit_test(every_layout_to_every_other),
        cmocka_unit_test(layouts_are_invisible),
        cmocka_unit_test(mapping_is_checked),
        cmocka_unit_test(a_layout_change_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
