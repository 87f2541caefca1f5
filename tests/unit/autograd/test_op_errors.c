/* Inputs that operations refuse, and what they say. */
#include <math.h>

#include "ops_fixture.h"
#include "testing.h"

static void assert_fails(const ls_tensor *result, ls_status status,
                         const char *part)
{
    assert_null(result);
    assert_error(ls_backward(tape, NULL, 1.0), status, part);
    ls_tape_reset(tape);
}

static void dropout_checks_p(void **state)
{
    (void)state;
    static const double bad[] = {-0.1, 1.0, 1.5, NAN};
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        const int64_t n = 4;
        assert_null(ls_dropout(tape, random_tensor(1, &n, 1), bad[i]));
        assert_error(ls_backward(tape, NULL, 1.0), LS_ERR_ARGUMENT, "p is");
        ls_tape_reset(tape);
    }
}

static void labels_are_checked(void **state)
{
    (void)state;
    static const struct {
        int64_t labels[3];
        const char *part;
    } cases[] = {{{0, 1, 100}, "row 2 is 100"}, {{0, -1, 5}, "row 1 is -1"}};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        ls_tensor *x = random_tensor(2, (const int64_t[]){3, 100}, 1);
        assert_null(
            ls_cross_entropy(tape, x, labels_of(cases[i].labels, 3), NULL));
        assert_error(ls_backward(tape, NULL, 1.0), LS_ERR_ARGUMENT,
                     cases[i].part);
        ls_tape_reset(tape);
    }
}

static void shapes_of_products(void **state)
{
    (void)state;
    assert_fails(ls_matmul(tape, matrix(2, 3), matrix(2, 3)), LS_ERR_SHAPE,
                 "cannot multiply shapes (2, 3) and (2, 3)");
    assert_fails(ls_matmul(tape, vector(3), matrix(3, 3)), LS_ERR_SHAPE,
                 "(3) and (3, 3)");
    assert_fails(ls_linear(tape, matrix(2, 3), matrix(4, 5), NULL),
                 LS_ERR_SHAPE,
                 "x has shape (2, 3) and weight has shape (4, 5)");
    assert_fails(ls_linear(tape, matrix(2, 3), matrix(4, 3), vector(3)),
                 LS_ERR_SHAPE, "bias has shape (3); weight of shape (4, 3)");
    const int64_t numbers[] = {0, 1};
    ls_tensor *half = ls_cast(tape, matrix(3, 2), LS_F16);
    assert_fails(ls_matmul(tape, labels_of(numbers, 2), half), LS_ERR_DTYPE,
                 "a is i64; it must be f32, bf16 or f16");
    half = ls_cast(tape, matrix(3, 2), LS_F16);
    assert_fails(ls_matmul(tape, half, ls_cast(tape, half, LS_BF16)),
                 LS_ERR_DTYPE, "bf16; it must be f16");
    half = ls_cast(tape, matrix(3, 2), LS_BF16);
    assert_fails(ls_matmul(tape, matrix(2, 3), half), LS_ERR_DTYPE, "bf16");
    half = ls_cast(tape, matrix(2, 3), LS_BF16);
    assert_fails(ls_relu(tape, half), LS_ERR_DTYPE, "relu");
    assert_fails(ls_cast(tape, matrix(2, 3), LS_I64), LS_ERR_DTYPE, "i64");
}

static void shapes_of_images(void **state)
{
    (void)state;
    const ls_conv2d_options plain = {0}, negative = {.padding = -1};
    assert_fails(
        ls_conv2d(tape, image(1, 3, 4, 4), image(2, 4, 3, 3), NULL, &plain),
        LS_ERR_SHAPE,
        "x of shape (1, 3, 4, 4) and weight of shape (2, 4, 3, 3)");
    assert_fails(ls_conv2d(tape, matrix(1, 3), image(2, 4, 3, 3), NULL, &plain),
                 LS_ERR_SHAPE,
                 "got shape (1, 3), expected shape (N, C, H, W) for x");
    assert_fails(ls_conv2d(tape, image(1, 4, 4, 4), image(2, 4, 3, 3),
                           vector(3), &plain),
                 LS_ERR_SHAPE, "bias has shape (3)");
    assert_fails(
        ls_conv2d(tape, image(1, 4, 2, 4), image(2, 4, 3, 3), NULL, &plain),
        LS_ERR_SHAPE, "kernel of 3 x 3");
    assert_fails(
        ls_conv2d(tape, image(1, 4, 2, 4), image(2, 4, 3, 3), NULL, &negative),
        LS_ERR_ARGUMENT, "padding -1");
    assert_fails(ls_max_pool2d(tape, image(1, 1, 3, 3), 4, NULL), LS_ERR_SHAPE,
                 "4 x 4");
    assert_fails(ls_max_pool2d(tape, image(1, 1, 3, 3), 0, NULL),
                 LS_ERR_ARGUMENT, "size is 0");
    assert_fails(ls_max_pool2d(tape, image(1, 1, 30, 30), 16, NULL),
                 LS_ERR_ARGUMENT, "size is 16");
}

static void shapes_of_the_rest(void **state)
{
    (void)state;
    const int64_t none = 0;
    assert_fails(ls_mul(tape, matrix(2, 3), matrix(3, 2)), LS_ERR_SHAPE,
                 "mul: shapes (2, 3) and (3, 2)");
    assert_fails(ls_mse_loss(tape, matrix(2, 3), vector(6)), LS_ERR_SHAPE,
                 "mse_loss");
    assert_fails(
        ls_cross_entropy(tape, matrix(2, 3), labels_of(&none, 1), NULL),
        LS_ERR_SHAPE, "shape (2, 3) and labels have shape (1)");
    assert_fails(ls_cross_entropy(tape, matrix(1, 3), vector(1), NULL),
                 LS_ERR_DTYPE, "i64");
    assert_fails(batch_norm(matrix(2, 3), new_statistics(4)), LS_ERR_SHAPE,
                 "running_mean has shape (4)");
    assert_fails(batch_norm(vector(3), new_statistics(3)), LS_ERR_SHAPE,
                 "(N, C, ...)");
    assert_fails(ls_reshape(tape, matrix(2, 3), 1, (const int64_t[]){5}),
                 LS_ERR_SHAPE, "(2, 3)");
    assert_fails(ls_narrow(tape, matrix(2, 3), 1, 1, 4), LS_ERR_ARGUMENT,
                 "1 to 4");
    assert_fails(ls_transpose(tape, matrix(2, 3), 0, 2), LS_ERR_ARGUMENT,
                 "dimension 2");
}

/* The tape is looked at before the options. */
static void a_null_tape_with_bad_options(void **state)
{
    (void)state;
    const ls_pool2d_options pool = {.struct_size = 1};
    const ls_cross_entropy_options entropy = {.struct_size = 1};
    const int64_t none = 0;
    ls_tensor *const x = image(1, 1, 2, 2), *const logits = matrix(1, 3);
    ls_tensor *const labels = labels_of(&none, 1);
    assert_null(ls_max_pool2d(NULL, x, 1, &pool));
    assert_string_equal(ls_last_error(), "max_pool2d: tape is NULL");
    assert_null(ls_avg_pool2d(NULL, x, 1, &pool));
    assert_string_equal(ls_last_error(), "avg_pool2d: tape is NULL");
    assert_null(ls_cross_entropy(NULL, logits, labels, &entropy));
    assert_string_equal(ls_last_error(), "cross_entropy: tape is NULL");
    assert_ok(ls_tape_status(tape));
}

/* Backward of an operation whose second index has changed to 3. */
static void assert_backward_fails(ls_tensor *y, ls_tensor *indices,
                                  const char *part)
{
    ls_tensor *const loss = ls_sum(tape, y);
    assert_ok(ls_tape_status(tape));
    ((int64_t *)tensor_data(indices))[1] = 3;
    assert_error(ls_backward(tape, loss, 1.0), LS_ERR_ARGUMENT, part);
    ls_tape_reset(tape);
}

static ls_tensor *watched(ls_tensor *x)
{
    assert_ok(ls_tape_watch(tape, x));
    return x;
}

static void indices_that_change_before_backward(void **state)
{
    (void)state;
    const int64_t places[] = {0, 2};
    ls_tensor *indices = labels_of(places, 2);
    ls_tensor *y = ls_take_along(tape, watched(vector(3)), indices, 0);
    assert_backward_fails(y, indices, "take_along backward: index 1 is 3;");
    indices = labels_of(places, 2);
    y = ls_embedding(tape, watched(matrix(3, 4)), indices);
    assert_backward_fails(y, indices, "embedding backward: index 1 is 3;");
    indices = labels_of(places, 2);
    y = ls_cross_entropy(tape, watched(matrix(2, 3)), indices, NULL);
    assert_backward_fails(y, indices,
                          "cross_entropy backward: the label of row 1 is 3;");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(dropout_checks_p),
        CASE(labels_are_checked),
        CASE(shapes_of_products),
        CASE(shapes_of_images),
        CASE(shapes_of_the_rest),
        CASE(a_null_tape_with_bad_options),
        CASE(indices_that_change_before_backward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
