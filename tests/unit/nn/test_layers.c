/* Layers: what they add to a set, how it is filled, what forward gives. */
#include <math.h>
#include <string.h>

#include "lockstep/nn.h"
#include "testing.h"

static ls_params *params;
static ls_tape *tape;

static int set_up(void **state)
{
    (void)state;
    return ls_params_new(&params) != LS_OK || ls_tape_new(&tape) != LS_OK;
}

static int tear_down(void **state)
{
    (void)state;
    ls_tape_free(&tape);
    ls_params_free(&params);
    return 0;
}

static void check_shape(const ls_tensor *tensor, int ndim, int64_t a, int64_t b,
                        int64_t c, int64_t d)
{
    const int64_t expected[] = {a, b, c, d};
    assert_non_null(tensor);
    assert_int_equal(ls_tensor_ndim(tensor), ndim);
    assert_memory_equal(ls_tensor_shape(tensor), expected,
                        (size_t)ndim * sizeof expected[0]);
}

/* ---- initial values ----------------------------------------------------- */

/*
 * Uniform in [-bound, bound): all inside, mean and mean square within five
 * standard deviations of theirs, and the ends are nearly reached.
 */
static void check_uniform(const ls_tensor *tensor, double bound)
{
    const float *x = tensor_data(tensor);
    const int64_t n = ls_tensor_count(tensor);
    double sum = 0, squares = 0, least = 0, most = 0;
    for (int64_t i = 0; i < n; i++) {
        assert_true(fabs(x[i]) <= bound * (1 + 0x1p-23));
        sum += x[i];
        squares += (double)x[i] * x[i];
        least = fmin(least, x[i]);
        most = fmax(most, x[i]);
    }
    const double count = (double)n, variance = bound * bound / 3;
    assert_true(fabs(sum / count) < 5 * sqrt(variance / count));
    /* Of x^2: E x^4 - (E x^2)^2 = bound^4 (1/5 - 1/9). */
    assert_true(fabs(squares / count - variance) <
                5 * bound * bound * sqrt(4.0 / 45 / count));
    /* Missing the last 40/n of either end has probability e^-20. */
    assert_true(most > bound * (1 - 40 / count));
    assert_true(least < -bound * (1 - 40 / count));
}

static void test_linear_is_uniform_in_fan_in(void **state)
{
    (void)state;
    ls_linear_layer layer;
    assert_int_equal(
        ls_linear_layer_init(&layer, params, "fc", 250, 400, LS_LAYER_DEFAULT),
        LS_OK);
    assert_int_equal(ls_params_allocate(params, NULL, 5), LS_OK);
    check_shape(layer.weight, 2, 400, 250, 0, 0);
    check_shape(layer.bias, 1, 400, 0, 0, 0);
    check_uniform(layer.weight, 1 / sqrt(250));
    check_uniform(layer.bias, 1 / sqrt(250));
}

static void test_conv2d_is_uniform_in_fan_in(void **state)
{
    (void)state;
    ls_conv2d_layer layer;
    assert_int_equal(
        ls_conv2d_layer_init(&layer, params, "conv", 12, 300, 5, NULL), LS_OK);
    assert_int_equal(ls_params_allocate(params, NULL, 5), LS_OK);
    check_shape(layer.weight, 4, 300, 12, 5, 5);
    check_shape(layer.bias, 1, 300, 0, 0, 0);
    check_uniform(layer.weight, 1 / sqrt(300));
    check_uniform(layer.bias, 1 / sqrt(300));
}

static void check_constant(const ls_tensor *tensor, float value)
{
    for (int64_t i = 0; i < ls_tensor_count(tensor); i++)
        assert_true(((const float *)tensor_data(tensor))[i] == value);
}

static void test_batch_norm_starts_as_the_identity(void **state)
{
    (void)state;
    ls_batch_norm_layer layer;
    assert_int_equal(
        ls_batch_norm_layer_init(&layer, params, "bn", 33, LS_LAYER_DEFAULT),
        LS_OK);
    assert_int_equal(ls_params_allocate(params, NULL, 5), LS_OK);
    check_shape(layer.args.weight, 1, 33, 0, 0, 0);
    check_constant(layer.args.weight, 1);
    check_constant(layer.args.bias, 0);
    check_constant(layer.args.running_mean, 0);
    check_constant(layer.args.running_var, 1);
    assert_true(layer.args.eps == 1e-5 && layer.args.momentum == 0.1);
}

static void test_names(void **state)
{
    (void)state;
    static const char *const expected[] = {"a.weight", "a.bias", "b.weight",
                                           "c.weight", "c.bias"};
    ls_conv2d_layer conv;
    ls_linear_layer linear;
    ls_batch_norm_layer norm, plain;
    assert_int_equal(ls_conv2d_layer_init(&conv, params, "a", 1, 1, 1, NULL),
                     LS_OK);
    assert_int_equal(
        ls_linear_layer_init(&linear, params, "b", 1, 1, LS_LAYER_NO_BIAS),
        LS_OK);
    assert_int_equal(
        ls_batch_norm_layer_init(&norm, params, "c", 1, LS_LAYER_DEFAULT),
        LS_OK);
    assert_int_equal(
        ls_batch_norm_layer_init(&plain, params, "d", 1, LS_LAYER_NO_AFFINE),
        LS_OK);
    assert_null(linear.bias);
    assert_null(plain.args.weight);
    assert_null(plain.args.bias);
    assert_int_equal(ls_params_count(params), 5);
    for (size_t i = 0; i < 5; i++)
        assert_string_equal(ls_params_name(params, i), expected[i]);
    assert_int_equal(ls_params_buffer_count(params), 4);
    assert_string_equal(ls_params_buffer_name(params, 0), "c.running_mean");
    assert_string_equal(ls_params_buffer_name(params, 3), "d.running_var");
}

/* The network of the CIFAR-100 task has 825,988 parameters in 8 tensors. */
static void test_counts_of_a_known_network(void **state)
{
    (void)state;
    const ls_conv2d_options plain = {0};
    ls_conv2d_layer conv1, conv2;
    ls_linear_layer fc1, fc2;
    ls_batch_norm_layer norm;
    ls_status status =
        ls_conv2d_layer_init(&conv1, params, "conv1", 3, 32, 3, &plain);
    status |= ls_conv2d_layer_init(&conv2, params, "conv2", 32, 32, 3, &plain);
    status |=
        ls_linear_layer_init(&fc1, params, "fc1", 6272, 128, LS_LAYER_DEFAULT);
    status |=
        ls_batch_norm_layer_init(&norm, params, "bn1", 128, LS_LAYER_NO_AFFINE);
    status |=
        ls_linear_layer_init(&fc2, params, "fc2", 128, 100, LS_LAYER_DEFAULT);
    assert_int_equal(status, LS_OK);
    assert_int_equal(ls_params_count(params), 8);
    assert_int_equal(ls_params_numel(params), 825988);
    assert_int_equal(ls_params_buffer_count(params), 2);
}

/* ---- forward ------------------------------------------------------------ */

static ls_tensor *make_input(int ndim, int64_t a, int64_t b, int64_t c,
                             int64_t d)
{
    const int64_t shape[] = {a, b, c, d};
    ls_tensor *x = NULL;
    assert_int_equal(ls_tensor_new(&x, LS_F32, ndim, shape), LS_OK);
    for (int64_t i = 0; i < ls_tensor_count(x); i++)
        ((float *)tensor_data(x))[i] = (float)(i * 37 % 19 - 9);
    return x;
}

/* y = sum of k products and a bias, each rounded: error within (k + 1) u. */
static void check_close(float got, double expected, double magnitude, int k)
{
    assert_true(fabs(got - expected) <= 1.01 * (k + 1) * 0x1p-24 * magnitude);
}

static void test_linear_forward(void **state)
{
    (void)state;
    enum { N = 4, IN = 7, OUT = 3 };
    ls_linear_layer layer;
    assert_int_equal(
        ls_linear_layer_init(&layer, params, "fc", IN, OUT, LS_LAYER_DEFAULT),
        LS_OK);
    assert_int_equal(ls_params_allocate(params, NULL, 5), LS_OK);
    ls_tensor *x = make_input(2, N, IN, 0, 0);
    const ls_tensor *y = ls_linear_layer_forward(&layer, tape, x);
    check_shape(y, 2, N, OUT, 0, 0);
    const float *in = tensor_data(x), *w = tensor_data(layer.weight);
    const float *b = tensor_data(layer.bias), *out = tensor_data(y);
    for (int i = 0; i < N * OUT; i++) {
        double sum = b[i % OUT], magnitude = fabs(sum);
        for (int k = 0; k < IN; k++) {
            const double term =
                (double)in[i / OUT * IN + k] * w[i % OUT * IN + k];
            sum += term;
            magnitude += fabs(term);
        }
        check_close(out[i], sum, magnitude, IN);
    }
    ls_tape_reset(tape);
    ls_tensor_free(&x);
}

static void check_conv(const ls_conv2d_layer *layer, int64_t side,
                       int64_t out_side)
{
    ls_tensor *x = make_input(4, 2, 3, side, side);
    check_shape(ls_conv2d_layer_forward(layer, tape, x), 4, 2, 4, out_side,
                out_side);
    ls_tape_reset(tape);
    ls_tensor_free(&x);
}

static void test_conv2d_forward_shapes(void **state)
{
    (void)state;
    ls_conv2d_layer plain, padded, strided;
    const ls_conv2d_options pad = {.padding = 1};
    const ls_conv2d_options stride = {.stride = 2, .relu = true};
    ls_status status = ls_conv2d_layer_init(&plain, params, "a", 3, 4, 3, NULL);
    status |= ls_conv2d_layer_init(&padded, params, "b", 3, 4, 3, &pad);
    status |= ls_conv2d_layer_init(&strided, params, "c", 3, 4, 3, &stride);
    assert_int_equal(status, LS_OK);
    assert_int_equal(ls_params_allocate(params, NULL, 5), LS_OK);
    check_conv(&plain, 9, 7);
    check_conv(&padded, 9, 9);
    check_conv(&strided, 9, 4);
}

static void test_batch_norm_forward(void **state)
{
    (void)state;
    enum { N = 6, C = 5 };
    ls_batch_norm_layer layer;
    assert_int_equal(
        ls_batch_norm_layer_init(&layer, params, "bn", C, LS_LAYER_NO_AFFINE),
        LS_OK);
    assert_int_equal(ls_params_allocate(params, NULL, 5), LS_OK);
    ls_tensor *x = make_input(2, N, C, 0, 0);
    const ls_tensor *y = ls_batch_norm_layer_forward(&layer, tape, x);
    check_shape(y, 2, N, C, 0, 0);
    const float *out = tensor_data(y), *in = tensor_data(x);
    const float *running = tensor_data(layer.args.running_mean);
    for (int c = 0; c < C; c++) {
        double sum = 0, squares = 0, mean = 0;
        for (int r = 0; r < N; r++) {
            sum += out[r * C + c];
            squares += (double)out[r * C + c] * out[r * C + c];
            mean += in[r * C + c] / (double)N;
        }
        assert_true(fabs(sum) < N * 1e-5);
        assert_true(fabs(squares / N - 1) < 1e-4);
        assert_true(fabs(running[c] - 0.1 * mean) < 1e-6 * (1 + fabs(mean)));
    }
    ls_tape_reset(tape);
    ls_tensor_free(&x);
}

/* ---- errors ------------------------------------------------------------- */

static void check_error(ls_status status, const char *what)
{
    assert_int_equal(status, LS_ERR_ARGUMENT);
    if (strstr(ls_last_error(), what) == NULL)
        fail_msg("'%s' lacks '%s'", ls_last_error(), what);
}

static void test_bad_extents(void **state)
{
    (void)state;
    const ls_conv2d_options plain = {0}, back = {.stride = -1};
    const ls_conv2d_options hole = {.padding = -1};
    ls_linear_layer fc = {0};
    ls_conv2d_layer conv = {0};
    ls_batch_norm_layer bn = {0};
    check_error(ls_linear_layer_init(&fc, params, "fc", 0, 3, LS_LAYER_DEFAULT),
                "layer fc: in is 0");
    check_error(
        ls_linear_layer_init(&fc, params, "fc", 3, -1, LS_LAYER_DEFAULT),
        "layer fc: out is -1");
    check_error(ls_conv2d_layer_init(&conv, params, "c", 0, 1, 3, &plain),
                "layer c: in is 0");
    check_error(ls_conv2d_layer_init(&conv, params, "c", 1, 0, 3, &plain),
                "layer c: out is 0");
    check_error(ls_conv2d_layer_init(&conv, params, "c", 1, 1, 0, &plain),
                "layer c: kernel is 0");
    check_error(ls_conv2d_layer_init(&conv, params, "c", 1, 1, 3, &back),
                "layer c: stride -1");
    check_error(ls_conv2d_layer_init(&conv, params, "c", 1, 1, 3, &hole),
                "padding -1");
    check_error(
        ls_batch_norm_layer_init(&bn, params, "bn", 0, LS_LAYER_DEFAULT),
        "layer bn: features is 0");
    assert_int_equal(ls_params_count(params), 0);
    assert_null(fc.weight);
    assert_null(conv.weight);
    assert_null(bn.args.running_mean);
}

/* Groups divide the fan-in, and a layer ahead of a batch normalisation has no
 * bias.
 */
static void test_conv2d_with_groups(void **state)
{
    (void)state;
    ls_conv2d_layer conv = {0};
    const ls_conv2d_options options = {
        .groups = 4, .padding = 1, .no_bias = true};
    assert_ok(ls_conv2d_layer_init(&conv, params, "c", 8, 12, 3, &options));
    const int64_t *shape = ls_tensor_shape(conv.weight);
    assert_true(shape[0] == 12 && shape[1] == 2 && shape[2] == 3);
    assert_null(conv.bias);
    assert_int_equal(ls_params_count(params), 1);
    assert_ok(ls_params_allocate(params, NULL, 1));
    const float *w = tensor_data(conv.weight);
    float largest = 0;
    for (int i = 0; i < 12 * 2 * 9; i++)
        largest = fmaxf(largest, fabsf(w[i]));
    const float bound = 1 / sqrtf(18.0F);
    assert_true(largest <= bound && largest > 0.9F * bound);
    check_error(ls_conv2d_layer_init(&conv, params, "d", 8, 6, 3, &options),
                "layer d: groups is 4; it must divide");
}

/* Both begin as the normalisation alone. */
static void test_norms_start_as_the_identity(void **state)
{
    (void)state;
    ls_layer_norm_layer rows = {0};
    ls_group_norm_layer groups = {0}, plain = {0};
    ls_tensor *x;
    assert_ok(ls_layer_norm_layer_init(&rows, params, "rows", 6));
    assert_ok(
        ls_group_norm_layer_init(&groups, params, "g", 6, 1, LS_LAYER_DEFAULT));
    assert_ok(ls_group_norm_layer_init(&plain, params, "p", 6, 1,
                                       LS_LAYER_NO_AFFINE));
    assert_null(plain.weight);
    check_error(
        ls_group_norm_layer_init(&plain, params, "q", 6, 4, LS_LAYER_DEFAULT),
        "layer q: groups is 4; it must divide the 6 channels");
    assert_ok(ls_params_allocate(params, NULL, 1));
    assert_ok(ls_tensor_new(&x, LS_F32, 2, (int64_t[]){2, 6}));
    float *data = tensor_data(x);
    for (int i = 0; i < 12; i++)
        data[i] = (float)(i * i % 7);
    const float *a = tensor_data(ls_layer_norm_layer_forward(&rows, tape, x));
    const float *b = tensor_data(ls_group_norm_layer_forward(&groups, tape, x));
    const float *c = tensor_data(ls_group_norm_layer_forward(&plain, tape, x));
    for (int i = 0; i < 12; i++) /* one group is the row */
        assert_true(fabsf(a[i] - b[i]) <= 1e-6F && b[i] == c[i]);
    ls_tensor_free(&x);
}

static void test_flags_of_other_layers(void **state)
{
    (void)state;
    ls_linear_layer fc;
    ls_batch_norm_layer bn;
    check_error(
        ls_linear_layer_init(&fc, params, "fc", 1, 1, LS_LAYER_NO_AFFINE),
        "layer fc: this kind of layer does not support flags 0x2");
    check_error(
        ls_batch_norm_layer_init(&bn, params, "bn", 1, LS_LAYER_NO_BIAS),
        "layer bn: this kind of layer does not support flags 0x1");
}

static void test_bad_names(void **state)
{
    (void)state;
    char name[400];
    ls_linear_layer fc = {0};
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    check_error(ls_linear_layer_init(&fc, params, NULL, 1, 1, LS_LAYER_DEFAULT),
                "name is NULL");
    check_error(ls_linear_layer_init(&fc, params, "", 1, 1, LS_LAYER_DEFAULT),
                "the name of a layer is empty");
    check_error(ls_linear_layer_init(&fc, params, name, 1, 1, LS_LAYER_DEFAULT),
                "longer than");
    assert_int_equal(
        ls_linear_layer_init(&fc, params, "fc", 1, 1, LS_LAYER_DEFAULT), LS_OK);
    ls_linear_layer again = {0};
    check_error(
        ls_linear_layer_init(&again, params, "fc", 1, 1, LS_LAYER_DEFAULT),
        "fc.weight");
    assert_null(again.weight);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_linear_is_uniform_in_fan_in),
        TEST(test_conv2d_is_uniform_in_fan_in),
        TEST(test_batch_norm_starts_as_the_identity),
        TEST(test_names),
        TEST(test_counts_of_a_known_network),
        TEST(test_linear_forward),
        TEST(test_conv2d_forward_shapes),
        TEST(test_conv2d_with_groups),
        TEST(test_norms_start_as_the_identity),
        TEST(test_batch_norm_forward),
        TEST(test_bad_extents),
        TEST(test_flags_of_other_layers),
        TEST(test_bad_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
