/*
 * Tensors over memory of the caller, with any strides and a callback when
 * the memory is no longer needed; copies of them.
 */
#include "model/tensor/tensor.h"
#include "testing.h"

static void count_release(void *context)
{
    ++*(int *)context;
}

static const int64_t shape23[] = {2, 3};

/* The first three columns of rows of five. */
static void strides_of_the_caller(void **state)
{
    (void)state;
    float memory[10], want[] = {0, 1, 2, 5, 6, 7};
    const int64_t strides[] = {5, 1};
    const ls_wrap_options options = {.struct_size = sizeof options,
                                     .strides = strides};
    ls_tensor *t = NULL, *clone = NULL;
    for (int i = 0; i < 10; i++)
        memory[i] = (float)i;
    assert_ok(ls_tensor_wrap(&t, memory, LS_F32, 2, shape23, &options));
    assert_int_equal(ls_tensor_strides(t)[0], 5);
    assert_false(ls_tensor_is_contiguous(t));
    assert_ptr_equal(tensor_data(t), memory);
    assert_ok(ls_tensor_clone(t, &clone));
    assert_true(ls_tensor_is_contiguous(clone));
    assert_memory_equal(tensor_data(clone), want, sizeof want);
    assert_ok(ls_tensor_fill(t, 9));
    assert_true(memory[4] == 4 && memory[7] == 9 && memory[9] == 9);
    assert_memory_equal(tensor_data(clone), want, sizeof want);
    ls_tensor_free(&clone);
    ls_tensor_free(&t);
}

/* A stride of 0 repeats; strides of dimensions of 1 do not matter. */
static void repeated_elements(void **state)
{
    (void)state;
    const int32_t want[] = {7, 8, 9, 7, 8, 9};
    int32_t row[] = {7, 8, 9};
    const int64_t strides[] = {0, 1}, shape13[] = {1, 3}, any[] = {100, 1};
    ls_tensor *t = NULL, *clone = NULL;
    assert_ok(ls_tensor_wrap(&t, row, LS_I32, 2, shape23,
                             &(ls_wrap_options){.strides = strides}));
    assert_ok(ls_tensor_clone(t, &clone));
    assert_memory_equal(tensor_data(clone), want, sizeof want);
    ls_tensor_free(&clone);
    ls_tensor_free(&t);
    assert_ok(ls_tensor_wrap(&t, row, LS_I32, 2, shape13,
                             &(ls_wrap_options){.strides = any}));
    assert_true(ls_tensor_is_contiguous(t));
    ls_tensor_free(&t);
}

static void strides_that_are_refused(void **state)
{
    (void)state;
    float memory[10] = {0};
    const int64_t back[] = {-5, 1}, far[] = {INT64_MAX / 2, 1},
                  farther[] = {INT64_MAX, INT64_MAX};
    int released = 0;
    ls_tensor *t = NULL;
    ls_wrap_options options = {
        .strides = back, .release = count_release, .context = &released};
    assert_error(ls_tensor_wrap(&t, memory, LS_F32, 2, shape23, &options),
                 LS_ERR_ARGUMENT,
                 "stride -5 of dimension 0 is negative; it must be at "
                 "least 0");
    options.strides = far;
    assert_error(ls_tensor_wrap(&t, memory, LS_F32, 2, shape23, &options),
                 LS_ERR_ARGUMENT, "too large for any memory");
    options.strides = farther;
    assert_error(ls_tensor_wrap(&t, memory, LS_F32, 2, shape23, &options),
                 LS_ERR_ARGUMENT, "too large for any memory");
    options.strides = NULL;
    assert_error(ls_tensor_wrap(&t, memory, LS_F64, 2, shape23, &options),
                 LS_ERR_DTYPE, "f64");
    options.struct_size = 3;
    assert_error(ls_tensor_wrap(&t, memory, LS_F32, 2, shape23, &options),
                 LS_ERR_ARGUMENT, "ls_wrap_options.struct_size is 3");
    assert_null(t);
    assert_int_equal(released, 0);
}

/* Once, and not before the last view and the tape have let go. */
static void released_with_the_last_view(void **state)
{
    (void)state;
    float memory[6] = {1, 2, 3, 4, 5, 6};
    int released = 0;
    ls_wrap_options options = LS_WRAP_OPTIONS_INIT;
    options.release = count_release;
    options.context = &released;
    ls_tensor *t = NULL, *row = NULL, *turned = NULL, *clone = NULL;
    assert_ok(ls_tensor_wrap(&t, memory, LS_F32, 2, shape23, &options));
    ls_tensor *same = ls_tensor_retain(t);
    assert_ok(ls_tensor_narrow(t, 0, 1, 2, &row));
    assert_ok(ls_tensor_transpose(row, 0, 1, &turned));
    assert_ok(ls_tensor_clone(row, &clone));
    ls_tensor_free(&t);
    ls_tensor_free(&row);
    ls_tensor_free(&same);
    assert_int_equal(released, 0);
    ls_tensor_free(&turned);
    assert_int_equal(released, 1);
    assert_true(((float *)tensor_data(clone))[2] == 6); /* its own memory */
    ls_tensor_free(&clone);
    assert_int_equal(released, 1);
}

static void released_without_elements(void **state)
{
    (void)state;
    int released = 0;
    const int64_t none[] = {0, 3};
    ls_tensor *t = NULL;
    assert_ok(ls_tensor_wrap(
        &t, NULL, LS_F32, 2, none,
        &(ls_wrap_options){.release = count_release, .context = &released}));
    ls_tensor_free(&t);
    assert_int_equal(released, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strides_of_the_caller),
        cmocka_unit_test(repeated_elements),
        cmocka_unit_test(strides_that_are_refused),
        cmocka_unit_test(released_with_the_last_view),
        cmocka_unit_test(released_without_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
