/* The CIFAR-100 network: its parameters, its start, its gradients. */
#include "testing.h"

#include <math.h>

#include "model/nets/image_net.h"
#include "unit/comm/ranks.h"

static const lsi_image_net_setup usual = {.config = LSI_IMAGE_CIFAR100,
                                          .norm = LSI_NORM_FUSED,
                                          .dropout = false,
                                          .seed = 5};

/* As in the published recipe: uniform in +-1/sqrt(fan in). */
static const struct tensor_row {
    const char *name;
    int ndim;
    int64_t shape[4];
    double limit;
} rows[] = {
    {"conv1.weight", 4, {32, 3, 3, 3}, 0.19245008972987526},
    {"conv1.bias", 1, {32}, 0.19245008972987526},
    {"conv2.weight", 4, {32, 32, 3, 3}, 0.058925565098878960},
    {"conv2.bias", 1, {32}, 0.058925565098878960},
    {"fc1.weight", 2, {128, 6272}, 0.012626907715085503},
    {"fc1.bias", 1, {128}, 0.012626907715085503},
    {"fc2.weight", 2, {100, 128}, 0.088388347648318447},
    {"fc2.bias", 1, {100}, 0.088388347648318447},
};

static void check_values(const ls_tensor *tensor, double limit)
{
    const float *const data = tensor_data(tensor);
    const int64_t n = ls_tensor_count(tensor);
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) {
        const double x = (double)data[i];
        assert_true(fabs(x) <= limit * (1 + 1e-6));
        sum += x;
        squares += x * x;
    }
    /* Six standard errors of the mean and of the mean square. */
    assert_true(fabs(sum / (double)n) <= 6 * limit / sqrt(3.0 * (double)n));
    assert_true(fabs(squares / (double)n / (limit * limit) - 1.0 / 3) <=
                6 * sqrt(4.0 / 45 / (double)n));
}

static void test_parameters(void **state)
{
    (void)state;
    ls_group *group = NULL;
    ls_image_net *net = NULL;
    assert_ok(ls_group_open_threads(&group, 1));
    assert_ok(lsi_image_net_new(&net, group, &usual));
    ls_params *const params = lsi_image_net_model(net)->params;
    assert_int_equal(ls_params_numel(params), 825988);
    assert_int_equal(ls_params_count(params), TEST_COUNT(rows));
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        const ls_tensor *const t = ls_params_get(params, i);
        assert_string_equal(ls_params_name(params, i), rows[i].name);
        assert_int_equal(ls_tensor_ndim(t), rows[i].ndim);
        assert_memory_equal(ls_tensor_shape(t), rows[i].shape,
                            (size_t)rows[i].ndim * sizeof(int64_t));
        check_values(t, rows[i].limit);
    }
    assert_int_equal(ls_params_buffer_count(params), 2);
    assert_string_equal(ls_params_buffer_name(params, 0), "bn1.running_mean");
    assert_string_equal(ls_params_buffer_name(params, 1), "bn1.running_var");
    ls_image_net_free(&net);
    ls_group_close(&group);
}

/* ---- gradients ---------------------------------------------------------- */

enum { BATCH = 6 };

typedef struct fixture {
    ls_group *group;
    ls_image_net *net;
    const lsi_model *model;
    ls_tape *tape;
    ls_batch batch;
} fixture;

static fixture make(lsi_net_norm norm, int64_t count)
{
    fixture f = {0};
    lsi_image_net_setup options = usual;
    options.norm = norm;
    assert_ok(ls_group_open_threads(&f.group, 1));
    assert_ok(lsi_image_net_new(&f.net, f.group, &options));
    f.model = lsi_image_net_model(f.net);
    assert_ok(ls_tape_new(&f.tape));
    f.batch.count = count;
    assert_ok(ls_tensor_new(&f.batch.fields[LS_FIELD_IMAGES], LS_F32, 4,
                            (int64_t[]){count, 3, 32, 32}));
    assert_ok(
        ls_tensor_new(&f.batch.fields[LS_FIELD_LABELS], LS_I64, 1, &count));
    float *const x = tensor_data(f.batch.fields[LS_FIELD_IMAGES]);
    int64_t *const labels = tensor_data(f.batch.fields[LS_FIELD_LABELS]);
    for (int64_t i = 0; i < ls_tensor_count(f.batch.fields[LS_FIELD_IMAGES]);
         i++)
        x[i] = (float)((i * 2654435761U >> 7) % 1024) / 256.0F - 2.0F;
    for (int64_t i = 0; i < count; i++)
        labels[i] = i * 17 % 100;
    return f;
}

static void destroy(fixture *f)
{
    ls_tensor_free(&f->batch.fields[LS_FIELD_IMAGES]);
    ls_tensor_free(&f->batch.fields[LS_FIELD_LABELS]);
    ls_tape_free(&f->tape);
    ls_image_net_free(&f->net);
    ls_group_close(&f->group);
}

static double loss_of(fixture *f, bool backward)
{
    double loss = NAN;
    const lsi_forward out =
        f->model->forward(f->model->self, f->tape, &f->batch);
    assert_ok(ls_tape_status(f->tape));
    assert_true(out.weight == (double)f->batch.count);
    assert_int_equal(ls_tensor_shape(out.logits)[0], f->batch.count);
    assert_int_equal(ls_tensor_shape(out.logits)[1], 100);
    assert_ok(ls_tensor_item(out.loss, &loss));
    if (backward) {
        ls_params_zero_grad(f->model->params);
        assert_ok(ls_backward(f->tape, out.loss, 1.0));
        ls_params_finish_grad(f->model->params);
    }
    ls_tape_reset(f->tape);
    return loss;
}

/*
 * Along the gradient itself a small step changes the loss by step * |g|^2,
 * however many parameters there are; what is left is the curvature, which the
 * central difference removes to second order, and rounding of the loss.
 */
static void check_directional(fixture *f, size_t index)
{
    ls_tensor *const p = ls_params_get(f->model->params, index);
    float *const x = tensor_data(p);
    const int64_t n = ls_tensor_count(p);
    const float *const g = tensor_data(ls_grad(p));
    double norm2 = 0;
    for (int64_t i = 0; i < n; i++)
        norm2 += (double)g[i] * (double)g[i];
    assert_true(norm2 > 0);
    const double step = 4e-3 / sqrt(norm2);
    for (int64_t i = 0; i < n; i++)
        x[i] += (float)(step * (double)g[i]);
    const double above = loss_of(f, false);
    for (int64_t i = 0; i < n; i++)
        x[i] -= (float)(2 * step * (double)g[i]);
    const double below = loss_of(f, false);
    for (int64_t i = 0; i < n; i++)
        x[i] += (float)(step * (double)g[i]);
    const double slope = (above - below) / (2 * step);
    if (!(fabs(slope - norm2) <= 0.05 * norm2))
        fail_msg("%s: slope %g, |g|^2 %g",
                 ls_params_name(f->model->params, index), slope, norm2);
}

static void check_gradients(lsi_net_norm norm)
{
    fixture f = make(norm, BATCH);
    const double loss = loss_of(&f, true);
    assert_true(loss > 3 && loss < 6); /* about log 100 */
    for (size_t i = 0; i < ls_params_count(f.model->params); i++) {
        /* Batch normalisation takes a shift of all rows out again. */
        if (strcmp(ls_params_name(f.model->params, i), "fc1.bias") != 0)
            check_directional(&f, i);
    }
    destroy(&f);
}

static void test_gradients(void **state)
{
    (void)state;
    check_gradients(LSI_NORM_FUSED);
    check_gradients(LSI_NORM_GATHERED);
    check_gradients(LSI_NORM_LOCAL);
}

static void test_empty_batch(void **state)
{
    (void)state;
    static const lsi_net_norm norms[] = {LSI_NORM_FUSED, LSI_NORM_GATHERED,
                                         LSI_NORM_LOCAL};
    for (size_t n = 0; n < TEST_COUNT(norms); n++) {
        fixture f = make(norms[n], 0);
        assert_true(loss_of(&f, true) == 0.0);
        size_t count;
        const float *const g = ls_params_flat_grad(f.model->params, &count);
        for (size_t i = 0; i < count; i++)
            assert_true(g[i] == 0.0F);
        destroy(&f);
    }
}

/* ---- the same model on any number of ranks ------------------------------ */

static void play_start(ls_group *group, void *expected)
{
    ls_image_net *net = NULL;
    size_t count;
    CHECK_OK(lsi_image_net_new(&net, group, &usual));
    const float *const flat =
        ls_params_flat(lsi_image_net_model(net)->params, &count);
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)flat[i] * (double)(i % 97);
    double *const seen = expected;
    if (ls_group_size(group) == 1)
        *seen = sum;
    CHECK(*seen == sum);
    ls_image_net_free(&net);
}

static void test_start_is_the_same_everywhere(void **state)
{
    (void)state;
    double sum = 0;
    run_threads(1, play_start, &sum);
    run_threads(3, play_start, &sum);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parameters),
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_empty_batch),
        cmocka_unit_test(test_start_is_the_same_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
