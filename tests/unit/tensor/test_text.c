/* Tensors as text. */
#include "model/tensor/tensor.h"
#include "testing.h"

#include <math.h>

static ls_tensor *floats(int ndim, const int64_t *shape, const float *values)
{
    ls_tensor *t = NULL;
    assert_ok(ls_tensor_new(&t, LS_F32, ndim, shape));
    memcpy(tensor_data(t), values, (size_t)ls_tensor_count(t) * sizeof *values);
    return t;
}

static void assert_text(ls_tensor *t, const char *want)
{
    char text[2000];
    size_t length = 0;
    assert_ok(ls_tensor_format(t, text, sizeof text, &length));
    assert_string_equal(text, want);
    assert_int_equal(length, strlen(want));
}

static void rows_and_columns(void **state)
{
    (void)state;
    const float values[] = {0, 0.5F, 1, 9, -10, NAN, 1e-20F, INFINITY};
    ls_tensor *t = floats(2, (const int64_t[]){2, 3}, values), *view = NULL;
    assert_text(t, "f32 (2, 3)\n[[  0, 0.5,   1],\n [  9, -10, nan]]");
    assert_ok(ls_tensor_transpose(t, 0, 1, &view));
    assert_text(view, "f32 (3, 2)\n[[  0,   9],\n [0.5, -10],\n [  1, nan]]");
    ls_tensor_free(&view);
    ls_tensor_free(&t);
    t = floats(3, (const int64_t[]){2, 2, 2}, values);
    assert_text(t, "f32 (2, 2, 2)\n"
                   "[[[    0,   0.5],\n  [    1,     9]],\n\n"
                   " [[  -10,   nan],\n  [1e-20,   inf]]]");
    ls_tensor_free(&t);
}

static void no_dimensions_and_no_elements(void **state)
{
    (void)state;
    ls_tensor *t = NULL;
    assert_ok(ls_tensor_zeros(&t, LS_I64, 0, NULL));
    assert_ok(ls_tensor_fill(t, -7));
    assert_text(t, "i64 ()\n-7");
    ls_tensor_free(&t);
    assert_ok(ls_tensor_zeros(&t, LS_U8, 2, (const int64_t[]){0, 3}));
    assert_text(t, "u8 (0, 3)\n[]");
    ls_tensor_free(&t);
    assert_ok(ls_tensor_zeros(&t, LS_BF16, 2, (const int64_t[]){2, 0}));
    assert_text(t, "bf16 (2, 0)\n[[],\n []]");
    ls_tensor_free(&t);
}

static void large_ones_are_cut(void **state)
{
    (void)state;
    ls_tensor *t = NULL;
    assert_ok(ls_tensor_zeros(&t, LS_I32, 2, (const int64_t[]){300, 4}));
    for (int i = 0; i < 1200; i++)
        ((int32_t *)tensor_data(t))[i] = i;
    assert_text(t, "i32 (300, 4)\n"
                   "[[   0,    1,    2,    3],\n"
                   " [   4,    5,    6,    7],\n"
                   " [   8,    9,   10,   11],\n"
                   " ...,\n"
                   " [1188, 1189, 1190, 1191],\n"
                   " [1192, 1193, 1194, 1195],\n"
                   " [1196, 1197, 1198, 1199]]");
    ls_tensor_free(&t);
    assert_ok(ls_tensor_zeros(&t, LS_I32, 1, (const int64_t[]){1001}));
    assert_text(t, "i32 (1001)\n[0, 0, 0, ..., 0, 0, 0]");
    ls_tensor_free(&t);
}

static void many_empty_rows_are_cut(void **state)
{
    (void)state;
    const int64_t shape[] = {(int64_t)1 << 33, 0};
    ls_tensor *t = NULL;
    assert_ok(ls_tensor_zeros(&t, LS_F32, 2, shape));
    assert_text(t, "f32 (8589934592, 0)\n"
                   "[[],\n [],\n [],\n ...,\n [],\n [],\n []]");
    ls_tensor_free(&t);
}

/* As snprintf: no more than there is room for, and the length of all. */
static void little_room(void **state)
{
    (void)state;
    const float values[] = {1, 2};
    const char *whole = "f32 (2)\n[1, 2]";
    ls_tensor *t = floats(1, (const int64_t[]){2}, values);
    for (size_t room = 0; room <= strlen(whole) + 1; room++) {
        char text[20] = "###################";
        size_t length = 0;
        assert_ok(ls_tensor_format(t, text, room, &length));
        assert_int_equal(length, strlen(whole));
        assert_int_equal(text[room], '#');
        if (room > 0) {
            assert_int_equal(strlen(text), room - 1);
            assert_memory_equal(text, whole, room - 1);
        }
    }
    assert_ok(ls_tensor_format(t, NULL, 0, NULL));
    ls_tensor_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_and_columns),
        cmocka_unit_test(no_dimensions_and_no_elements),
        cmocka_unit_test(large_ones_are_cut),
        cmocka_unit_test(many_empty_rows_are_cut),
        cmocka_unit_test(little_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
