/* Losses apart from their gradients: large, small, empty and NaN inputs. */
#include <math.h>

#include "array/compute/threads.h"
#include "ops_fixture.h"
#include "testing.h"

static double item(const ls_tensor *tensor)
{
    double value = NAN;
    assert_non_null(tensor);
    assert_ok(ls_tensor_item(tensor, &value));
    return value;
}

/* Logits that would overflow an exponential are no problem. */
static void large_logits(void **state)
{
    (void)state;
    ls_tensor *x = random_tensor(2, (const int64_t[]){2, 2}, 1);
    memcpy(tensor_data(x), (const float[]){1e4F, 0, -1e4F, 1e4F}, 16);
    const int64_t labels[] = {0, 0};
    const double loss =
        item(ls_cross_entropy(tape, x, labels_of(labels, 2), NULL));
    assert_true(fabs(loss - 1e4) <= 1e-2);
}

/* The gradient of a loss of whole logits that are all `offset` larger. */
static void gradients_at(double offset, double smoothing, float got[10])
{
    const int64_t labels[] = {4, 1};
    ls_tensor *x = matrix(2, 5);
    float *logits = tensor_data(x);
    for (int i = 0; i < 10; i++)
        logits[i] = (float)(offset + i * i % 11);
    assert_ok(ls_tape_watch(tape, x));
    const ls_cross_entropy_options options = {.smoothing = smoothing};
    ls_tensor *y = ls_cross_entropy(tape, x, labels_of(labels, 2),
                                    smoothing > 0 ? &options : NULL);
    assert_ok(ls_backward(tape, y, 1.0));
    memcpy(got, tensor_data(ls_tape_grad(tape, x)), 10 * sizeof(float));
    ls_tape_reset(tape);
}

/* Differences of whole numbers below 2^24 are exact, so each bit is equal. */
static void an_offset_changes_no_gradient(void **state)
{
    (void)state;
    static const double offsets[] = {1e2, 1e4, 1e6, 1e7, -1e7};
    for (int smooth = 0; smooth < 2; smooth++) {
        float want[10], got[10];
        gradients_at(0, 0.125 * smooth, want);
        for (size_t i = 0; i < TEST_COUNT(offsets); i++) {
            gradients_at(offsets[i], 0.125 * smooth, got);
            assert_memory_equal(got, want, sizeof(want));
        }
    }
}

/* Of no elements it is 0; of NaN, NaN. */
static void binary_losses(void **state)
{
    (void)state;
    ls_tensor *x = matrix(0, 3), *t = matrix(0, 3);
    assert_ok(ls_tape_watch(tape, x));
    ls_tensor *y = ls_bce_with_logits(tape, x, t);
    assert_true(item(y) == 0.0);
    assert_ok(ls_backward(tape, y, 1.0));
    ls_tape_reset(tape);
    x = matrix(100, 101), t = matrix(100, 101);
    lsi_threads_set(1);
    const double one = item(ls_bce_with_logits(tape, x, t));
    lsi_threads_set(3);
    assert_true(item(ls_bce_with_logits(tape, x, t)) == one);
    ((float *)tensor_data(x))[5] = NAN;
    assert_true(isnan(item(ls_bce_with_logits(tape, x, t))));
    assert_null(ls_bce_with_logits(tape, x, matrix(101, 100)));
    assert_error(ls_backward(tape, NULL, 1.0), LS_ERR_SHAPE,
                 "bce_with_logits: shapes (100, 101) and (101, 100)");
}

static void smoothing_is_checked(void **state)
{
    (void)state;
    const int64_t classes[] = {0, 2};
    static const double bad[] = {-0.1, 1.1, NAN};
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        assert_null(
            ls_cross_entropy(tape, matrix(2, 3), labels_of(classes, 2),
                             &(ls_cross_entropy_options){.smoothing = bad[i]}));
        assert_error(ls_backward(tape, NULL, 1.0), LS_ERR_ARGUMENT,
                     "smoothing");
        ls_tape_reset(tape);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(large_logits),
        CASE(an_offset_changes_no_gradient),
        CASE(binary_losses),
        CASE(smoothing_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
