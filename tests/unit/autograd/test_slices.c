/*
 * Slices of a batch: with whole numbers, whose sums are exact, each slice's
 * buffer holds what its rows alone give, and folding gives the gradient of the
 * batch.
 */
#include "flat.h"
#include "testing.h"

#include "base/partition.h"
#include "model/autograd/params.h"
#include "model/tensor/tensor.h"

enum { BATCH = 7, ROWS = 2, IN = 5, OUT = 3, SIDE = 6, CHANNELS = 3 };

/* A layer with a weight and a bias, and what goes in. */
typedef struct layer {
    ls_params *params;
    ls_tensor *weight, *bias, *x;
    ls_tape *tape;
    bool conv;
} layer;

static void fill(ls_tensor *tensor, int seed)
{
    float *const data = tensor_data(tensor);
    for (int64_t i = 0; i < ls_tensor_count(tensor); i++)
        data[i] = (float)((i * 7 + seed) % 5 - 2);
}

/* Of the batch's rows begin..end-1. */
static layer make(bool conv, int slices, int64_t begin, int64_t end)
{
    const int64_t images[4] = {BATCH, CHANNELS, SIDE, SIDE};
    const int64_t filters[4] = {16, CHANNELS, 3, 3};
    const int64_t rows[3] = {BATCH, ROWS, IN}, matrix[2] = {OUT, IN};
    const ls_init zero = {LS_INIT_CONSTANT, 0, 0};
    layer l = {.conv = conv};
    ls_tensor *all = NULL;
    assert_ok(ls_params_new(&l.params));
    assert_ok(lsi_params_set_slices(l.params, slices));
    assert_ok(ls_params_add(l.params, "weight", conv ? 4 : 2,
                            conv ? filters : matrix, zero, &l.weight));
    assert_ok(ls_params_add(l.params, "bias", 1, conv ? filters : matrix, zero,
                            &l.bias));
    assert_ok(ls_params_allocate(l.params, NULL, 0));
    assert_ok(ls_tape_new(&l.tape));
    assert_ok(ls_tensor_new(&all, LS_F32, conv ? 4 : 3, conv ? images : rows));
    fill(all, 3);
    fill(l.weight, 1);
    fill(l.bias, 2);
    assert_ok(ls_tensor_narrow(all, 0, begin, end, &l.x));
    ls_tensor_free(&all);
    return l;
}

static void destroy(layer *l)
{
    ls_tape_free(&l->tape);
    ls_tensor_free(&l->x);
    ls_params_free(&l->params);
}

/* loss = sum of y^2 / 2, so that the gradient depends on the row. */
static ls_tensor *step(const layer *l)
{
    ls_tape_reset(l->tape);
    assert_ok(ls_tape_watch(l->tape, l->x));
    ls_tensor *const y = l->conv ? ls_conv2d(l->tape, l->x, l->weight, l->bias,
                                             &(ls_conv2d_options){.stride = 2})
                                 : ls_linear(l->tape, l->x, l->weight, l->bias);
    ls_tensor *const sum = ls_sum(l->tape, ls_mul(l->tape, y, y));
    assert_ok(ls_backward(l->tape, ls_scale(l->tape, sum, 0.5), 1));
    return ls_tape_grad(l->tape, l->x);
}

static void assert_same(const float *a, const float *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (a[i] != b[i])
            fail_msg("%g is not %g, at %lld", (double)a[i], (double)b[i],
                     (long long)i);
}

static float *slice_of(ls_tensor *tensor, int slice)
{
    bool accumulate;
    float *const data = lsi_param_slice(tensor->param, slice, &accumulate);
    assert_true(accumulate);
    return data;
}

/* Two micro-steps of the batch in slices, and of each slice's rows alone. */
static void check_slices(bool conv, int slices)
{
    layer whole = make(conv, slices, 0, BATCH);
    const float *dx = tensor_data(step(&whole));
    for (int j = 0; j < slices; j++) {
        const lsi_range rows = lsi_partition(BATCH, (size_t)slices, (size_t)j);
        if (lsi_range_size(rows) == 0)
            continue;
        layer alone = make(conv, 1, (int64_t)rows.begin, (int64_t)rows.end);
        const ls_tensor *const alone_dx = step(&alone);
        assert_same(slice_of(whole.weight, j),
                    tensor_data(ls_grad(alone.weight)),
                    ls_tensor_count(alone.weight));
        assert_same(slice_of(whole.bias, j), tensor_data(ls_grad(alone.bias)),
                    ls_tensor_count(alone.bias));
        assert_same(dx, tensor_data(alone_dx), ls_tensor_count(alone_dx));
        dx += ls_tensor_count(alone_dx);
        destroy(&alone);
    }
    layer unsliced = make(conv, 1, 0, BATCH);
    step(&unsliced);
    for (int again = 0; again < 2; again++) {
        step(&whole);
        step(&unsliced);
    }
    ls_params_finish_grad(whole.params);
    assert_same(tensor_data(ls_grad(whole.weight)),
                tensor_data(ls_grad(unsliced.weight)),
                ls_tensor_count(whole.weight));
    assert_same(tensor_data(ls_grad(whole.bias)),
                tensor_data(ls_grad(unsliced.bias)),
                ls_tensor_count(whole.bias));
    destroy(&whole);
    destroy(&unsliced);
}

static void slices_of_linear(void **state)
{
    (void)state;
    for (int slices = 1; slices <= 9; slices++)
        check_slices(false, slices);
}

static void slices_of_conv2d(void **state)
{
    (void)state;
    for (int slices = 1; slices <= 9; slices++)
        check_slices(true, slices);
}

/* ---- folding ------------------------------------------------------------- */

/* 1 + 2^-24 is 1: that 2^-24 + 2^-24 come first shows. */
static void slices_fold_as_ranks_do(void **state)
{
    static const float parts[4] = {1.0F, 0x1p-24F, -1.0F, 0x1p-24F};
    const int64_t n = 1;
    const ls_init zero = {LS_INIT_CONSTANT, 0, 0};
    ls_params *params = NULL;
    ls_tensor *p = NULL;
    bool accumulate;
    (void)state;
    assert_ok(ls_params_new(&params));
    assert_ok(lsi_params_set_slices(params, 4));
    assert_ok(ls_params_add(params, "p", 1, &n, zero, &p));
    assert_ok(ls_params_allocate(params, NULL, 0));
    for (int j = 0; j < 4; j++) {
        *lsi_param_slice(p->param, j, &accumulate) = parts[j];
        assert_false(accumulate);
    }
    lsi_params_fold(params, 0);
    assert_true(*(float *)tensor_data(ls_grad(p)) == 0x1p-23F);
    lsi_params_fold(params, 0); /* done already */
    assert_true(*(float *)tensor_data(ls_grad(p)) == 0x1p-23F);

    ls_params_zero_grad(params); /* what nobody has written is zero */
    *lsi_param_slice(p->param, 3, &accumulate) = 5;
    assert_false(accumulate);
    ls_params_finish_grad(params);
    assert_true(*(float *)tensor_data(ls_grad(p)) == 5);
    ls_params_free(&params);
}

static void bad_numbers_of_slices_are_errors(void **state)
{
    ls_params *params = NULL;
    (void)state;
    assert_ok(ls_params_new(&params));
    assert_error(lsi_params_set_slices(params, 0), LS_ERR_ARGUMENT, "1 to 64");
    assert_error(lsi_params_set_slices(params, LSI_MAX_SLICES + 1),
                 LS_ERR_ARGUMENT, "1 to 64");
    assert_ok(ls_params_allocate(params, NULL, 0));
    assert_error(lsi_params_set_slices(params, 2), LS_ERR_STATE, "before");
    ls_params_free(&params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_of_linear),
        cmocka_unit_test(slices_of_conv2d),
        cmocka_unit_test(slices_fold_as_ranks_do),
        cmocka_unit_test(bad_numbers_of_slices_are_errors),
    };
    return cmocka_run_group_tests_name("slices", tests, NULL, NULL);
}
