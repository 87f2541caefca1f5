/* ls_count_correct: what counts as right, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "lockstep/autograd.h"
#include "lockstep/nn.h"

/* Counts over tensors that lie in the caller's arrays. */
static ls_status count(float *logits, int64_t *labels, int64_t rows,
                       int64_t cols, int64_t *correct)
{
    const int64_t shape[] = {rows, cols};
    ls_tensor *x = NULL, *y = NULL;
    assert_int_equal(ls_tensor_wrap(&x, logits, LS_F32, 2, shape, NULL), LS_OK);
    assert_int_equal(ls_tensor_wrap(&y, labels, LS_I64, 1, shape, NULL), LS_OK);
    const ls_status status = ls_count_correct(x, y, correct);
    ls_tensor_free(&x);
    ls_tensor_free(&y);
    return status;
}

static int64_t count_one(float a, float b, float c, int64_t label)
{
    float logits[] = {a, b, c};
    int64_t correct = -1;
    assert_int_equal(count(logits, &label, 1, 3, &correct), LS_OK);
    return correct;
}

static void test_the_largest_wins(void **state)
{
    (void)state;
    assert_int_equal(count_one(1, 5, 2, 1), 1);
    assert_int_equal(count_one(1, 5, 2, 0), 0);
    assert_int_equal(count_one(1, 5, 2, 2), 0);
    assert_int_equal(count_one(-3, -5, -2, 2), 1);
    assert_int_equal(count_one(-INFINITY, 0, -1, 1), 1);
}

/* Exactly one label is right in a row without NaN, whatever the ties. */
static void test_the_first_of_equals_wins(void **state)
{
    (void)state;
    assert_int_equal(count_one(4, 4, 4, 0), 1);
    assert_int_equal(count_one(4, 4, 4, 1), 0);
    assert_int_equal(count_one(1, 4, 4, 1), 1);
    assert_int_equal(count_one(1, 4, 4, 2), 0);
}

/* A model that has diverged is never right. */
static void test_nan_is_never_right(void **state)
{
    (void)state;
    for (int64_t label = 0; label < 3; label++) {
        assert_int_equal(count_one(NAN, NAN, NAN, label), 0);
        assert_int_equal(count_one(1, NAN, 2, label), 0);
    }
}

static void test_counts_rows(void **state)
{
    (void)state;
    enum { ROWS = 97, COLS = 13 };
    const lsi_rng_key key = {4, 4};
    float logits[ROWS * COLS];
    int64_t labels[ROWS], expected = 0, correct = -1;
    for (uint64_t i = 0; i < ROWS * COLS; i++)
        logits[i] = (float)lsi_rng_uniform(key, 0, i);
    for (uint64_t r = 0; r < ROWS; r++) {
        labels[r] = (int64_t)lsi_rng_below(key, 1, r, COLS);
        int64_t best = 0;
        for (int64_t c = 1; c < COLS; c++) {
            if (logits[r * COLS + (size_t)c] > logits[r * COLS + (size_t)best])
                best = c;
        }
        if (r % 2 == 0)
            labels[r] = best;
        expected += labels[r] == best;
    }
    assert_int_equal(count(logits, labels, ROWS, COLS, &correct), LS_OK);
    assert_int_equal(correct, expected);
    assert_int_equal(count(logits, labels, 0, COLS, &correct), LS_OK);
    assert_int_equal(correct, 0);
}

static void test_strided_logits(void **state)
{
    (void)state;
    float values[] = {1, 9, 5, 3, 2, 8}; /* (3, 2) holding a (2, 3) */
    int64_t labels[] = {1, 0};
    const int64_t shape[] = {3, 2}, two = 2;
    int64_t correct = -1;
    ls_tensor *x = NULL, *t = NULL, *y = NULL;
    assert_int_equal(ls_tensor_wrap(&x, values, LS_F32, 2, shape, NULL), LS_OK);
    assert_int_equal(ls_tensor_wrap(&y, labels, LS_I64, 1, &two, NULL), LS_OK);
    assert_int_equal(ls_tensor_transpose(x, 0, 1, &t), LS_OK);
    assert_int_equal(ls_count_correct(t, y, &correct), LS_OK);
    assert_int_equal(correct, 2); /* rows 1 5 2 and 9 3 8 */
    ls_tensor_free(&x);
    ls_tensor_free(&t);
    ls_tensor_free(&y);
}

static void test_bad_labels(void **state)
{
    (void)state;
    float logits[6] = {0};
    int64_t correct = 77;
    int64_t labels[] = {0, 3};
    assert_int_equal(count(logits, labels, 2, 3, &correct), LS_ERR_ARGUMENT);
    assert_non_null(strstr(ls_last_error(), "label of row 1 is 3"));
    labels[1] = -1;
    assert_int_equal(count(logits, labels, 2, 3, &correct), LS_ERR_ARGUMENT);
    assert_int_equal(correct, 77);
}

/* The bits of 1, 2 and -2: as integers, -2 would be the largest. */
static void test_half_logits(void **state)
{
    (void)state;
    uint16_t bits[2][3] = {{0x3f80, 0x4000, 0xc000}, {0x3c00, 0x4000, 0xc000}};
    const ls_dtype types[] = {LS_BF16, LS_F16};
    const int64_t shape[] = {1, 3};
    for (int64_t label = 0; label < 3; label++)
        for (int t = 0; t < 2; t++) {
            ls_tensor *x = NULL, *y = NULL;
            int64_t correct = -1;
            assert_int_equal(
                ls_tensor_wrap(&x, bits[t], types[t], 2, shape, NULL), LS_OK);
            assert_int_equal(ls_tensor_wrap(&y, &label, LS_I64, 1, shape, NULL),
                             LS_OK);
            assert_int_equal(ls_count_correct(x, y, &correct), LS_OK);
            assert_int_equal(correct, label == 1);
            ls_tensor_free(&x);
            ls_tensor_free(&y);
        }
}

static void check_refused(ls_dtype logits_type, int ndim, ls_dtype labels_type,
                          int64_t n_labels, ls_status expected)
{
    const int64_t shape[] = {2, 3, 1};
    int64_t correct = 77;
    ls_tensor *x = NULL, *y = NULL;
    assert_int_equal(ls_tensor_zeros(&x, logits_type, ndim, shape), LS_OK);
    assert_int_equal(ls_tensor_zeros(&y, labels_type, 1, &n_labels), LS_OK);
    assert_int_equal(ls_count_correct(x, y, &correct), expected);
    assert_int_equal(correct, 77);
    ls_tensor_free(&x);
    ls_tensor_free(&y);
}

static void test_bad_tensors(void **state)
{
    (void)state;
    check_refused(LS_I32, 2, LS_I64, 2, LS_ERR_DTYPE);
    check_refused(LS_F32, 2, LS_I32, 2, LS_ERR_DTYPE);
    check_refused(LS_F32, 1, LS_I64, 2, LS_ERR_SHAPE);
    check_refused(LS_F32, 3, LS_I64, 2, LS_ERR_SHAPE);
    check_refused(LS_F32, 2, LS_I64, 3, LS_ERR_SHAPE);
}

static void test_logits_without_memory(void **state)
{
    (void)state;
    int64_t labels[] = {1, 0}, correct = -1;
    const int64_t shape[] = {2, 3};
    ls_params *params = NULL;
    ls_tensor *x = NULL, *y = NULL;
    assert_int_equal(ls_params_new(&params), LS_OK);
    assert_int_equal(ls_params_add(params, "x", 2, shape, (ls_init){0}, &x),
                     LS_OK);
    assert_int_equal(ls_tensor_wrap(&y, labels, LS_I64, 1, shape, NULL), LS_OK);
    assert_int_equal(ls_count_correct(x, y, &correct), LS_ERR_STATE);
    assert_non_null(strstr(ls_last_error(), "has no memory yet"));
    assert_int_equal(correct, -1);
    ls_tensor_free(&y);
    ls_params_free(&params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_largest_wins),
        cmocka_unit_test(test_the_first_of_equals_wins),
        cmocka_unit_test(test_nan_is_never_right),
        cmocka_unit_test(test_counts_rows),
        cmocka_unit_test(test_strided_logits),
        cmocka_unit_test(test_half_logits),
        cmocka_unit_test(test_bad_labels),
        cmocka_unit_test(test_bad_tensors),
        cmocka_unit_test(test_logits_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
