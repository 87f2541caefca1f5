/*
 * Mixed precision of whole models: gradients against f32, training to the same
 * loss, the same bits again.
 */
#include <math.h>
#include <stdlib.h>

#include "flat.h"
#include "lockstep/nn.h"
#include "lockstep/optim.h"
#include "lockstep/profile.h"
#include "lockstep/transformer.h"
#include "testing.h"

enum { BATCH = 4, LENGTH = 16, IN = 16, HIDDEN = 10, CLASSES = 5 };

typedef struct model {
    ls_params *params;
    ls_tape *tape;
    ls_transformer *transformer; /* or NULL: the toy */
    ls_linear_layer fc1, fc2;
    ls_tensor *ln_weight, *ln_bias;
} model;

static model open_toy(void)
{
    const int64_t features[] = {HIDDEN};
    model m = {0};
    assert_ok(ls_params_new(&m.params));
    assert_ok(ls_linear_layer_init(&m.fc1, m.params, "fc1", IN, HIDDEN,
                                   LS_LAYER_NO_BIAS));
    assert_ok(ls_params_add(m.params, "ln.weight", 1, features,
                            (ls_init){LS_INIT_CONSTANT, 1, 0}, &m.ln_weight));
    assert_ok(ls_params_add(m.params, "ln.bias", 1, features,
                            (ls_init){LS_INIT_CONSTANT, 0, 0}, &m.ln_bias));
    assert_ok(ls_linear_layer_init(&m.fc2, m.params, "fc2", HIDDEN, CLASSES,
                                   LS_LAYER_NO_BIAS));
    assert_ok(ls_params_allocate(m.params, NULL, 1));
    assert_ok(ls_tape_new(&m.tape));
    return m;
}

static model open_transformer(ls_transformer_kind kind)
{
    const ls_transformer_config config = {.kind = kind,
                                          .vocabulary = 29,
                                          .context = LENGTH,
                                          .d_model = 32,
                                          .d_ff = 48,
                                          .layers = 2,
                                          .heads = 4};
    model m = {0};
    assert_ok(ls_params_new(&m.params));
    assert_ok(ls_transformer_new(&m.transformer, m.params, &config));
    assert_ok(ls_params_allocate(m.params, NULL, 1));
    assert_ok(ls_tape_new(&m.tape));
    return m;
}

static void close_model(model *m)
{
    ls_tape_free(&m->tape);
    ls_transformer_free(&m->transformer);
    ls_params_free(&m->params);
}

/* ---- forward ------------------------------------------------------------- */

static int64_t token(int64_t i)
{
    return (i * i + 3 * i) % 29;
}

static ls_tensor *transformer_loss(model *m, int64_t shift)
{
    const int64_t shape[] = {BATCH, LENGTH}, rows = BATCH * LENGTH;
    ls_tensor *x = ls_tape_output(m->tape, LS_I64, 2, shape);
    ls_tensor *y = ls_tape_output(m->tape, LS_I64, 1, &rows);
    assert_non_null(y);
    for (int64_t i = 0; i < rows; i++) {
        ((int64_t *)tensor_data(x))[i] = token(i + shift);
        ((int64_t *)tensor_data(y))[i] = token(i + shift + 1);
    }
    ls_tensor *logits = ls_transformer_forward(m->transformer, m->tape, x);
    logits =
        ls_reshape(m->tape, logits, 2, (const int64_t[]){BATCH * LENGTH, 29});
    return ls_cross_entropy(m->tape, logits, y, NULL);
}

static ls_tensor *toy_loss(model *m, int64_t shift)
{
    const int64_t shape[] = {BATCH, IN}, rows = BATCH;
    ls_tensor *x = ls_tape_output(m->tape, LS_F32, 2, shape);
    ls_tensor *y = ls_tape_output(m->tape, LS_I64, 1, &rows);
    assert_non_null(y);
    for (int64_t i = 0; i < BATCH * IN; i++)
        ((float *)tensor_data(x))[i] = (float)((i + shift) * 7 % 19 - 9) / 9.0F;
    for (int64_t i = 0; i < rows; i++)
        ((int64_t *)tensor_data(y))[i] = (i + shift) % CLASSES;
    ls_tensor *h = ls_linear_layer_forward(&m->fc1, m->tape, x);
    h = ls_layer_norm(m->tape, ls_relu(m->tape, h), m->ln_weight, m->ln_bias,
                      1e-5);
    return ls_cross_entropy(
        m->tape, ls_linear_layer_forward(&m->fc2, m->tape, h), y, NULL);
}

/* Forward and backward; the loss. */
static double run(model *m, ls_dtype dtype, int64_t shift, double scale)
{
    double value = 0;
    assert_ok(ls_tape_set_autocast(m->tape, dtype));
    ls_params_zero_grad(m->params);
    ls_tensor *loss = m->transformer != NULL ? transformer_loss(m, shift)
                                             : toy_loss(m, shift);
    assert_ok(ls_backward(m->tape, loss, scale));
    assert_int_equal(ls_tensor_dtype(loss), LS_F32);
    assert_ok(ls_tensor_item(loss, &value));
    ls_tape_reset(m->tape);
    return value;
}

/* ---- gradients ----------------------------------------------------------- */

/* |a - b| / |b| over the elements of a parameter. */
static double distance(const float *a, const float *b, int64_t n)
{
    double difference = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        difference += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        size += (double)b[i] * b[i];
    }
    return sqrt(difference / size);
}

static void compare_gradients(model *m, ls_dtype dtype)
{
    size_t count;
    const double scale = dtype == LS_F16 ? 1024.0 : 1.0;
    const float *grads = flat_grad_of(m->params, &count);
    float *exact = malloc(count * sizeof(float));
    assert_non_null(exact);
    const double expected = run(m, LS_F32, 0, scale);
    memcpy(exact, grads, count * sizeof(float));
    const double loss = run(m, dtype, 0, scale);
    assert_true(fabs(loss - expected) <= 2e-2 * expected);
    assert_true(loss != expected); /* something was rounded */
    for (size_t i = 0; i < ls_params_count(m->params); i++) {
        const size_t at = ls_params_offset(m->params, i);
        const double far =
            distance(grads + at, exact + at,
                     ls_tensor_count(ls_params_get(m->params, i)));
        if (!(far <= 2e-2))
            fail_msg("%s: the gradient of %s is off by %g",
                     ls_dtype_name(dtype), ls_params_name(m->params, i), far);
    }
    free(exact);
    close_model(m);
}

static void gradients_of_the_toy(void **state)
{
    (void)state;
    model first = open_toy(), second = open_toy();
    compare_gradients(&first, LS_BF16);
    compare_gradients(&second, LS_F16);
}

static void gradients_of_transformers(void **state)
{
    (void)state;
    const ls_dtype halves[] = {LS_BF16, LS_F16};
    for (size_t h = 0; h < 2; h++) {
        model rope = open_transformer(LS_TRANSFORMER_ROPE);
        compare_gradients(&rope, halves[h]);
        model gpt2 = open_transformer(LS_TRANSFORMER_GPT2);
        compare_gradients(&gpt2, halves[h]);
    }
}

/* ---- training ------------------------------------------------------------ */

enum { STEPS = 60 };

static double train(ls_dtype dtype, double *losses)
{
    model m = open_transformer(LS_TRANSFORMER_ROPE);
    ls_optimizer *adamw = NULL;
    ls_adamw_options options = LS_ADAMW_OPTIONS_INIT;
    const double scale = dtype == LS_F16 ? 1024.0 : 1.0;
    double last = 0;
    options.lr = 3e-3;
    assert_ok(ls_optimizer_new(&adamw, m.params,
                               &(ls_optimizer_spec){.adamw = &options}));
    for (int64_t s = 0; s < STEPS; s++) {
        losses[s] = run(&m, dtype, s % 3, scale);
        assert_ok(ls_optimizer_step(adamw, 1.0 / scale));
        last += s >= STEPS - 10 ? losses[s] / 10 : 0;
    }
    ls_optimizer_free(&adamw);
    close_model(&m);
    return last;
}

static void training_comes_as_far(void **state)
{
    (void)state;
    double exact[STEPS], half[STEPS];
    const double expected = train(LS_F32, exact);
    assert_true(expected < 0.8 * exact[0]); /* it learns */
    assert_true(fabs(train(LS_BF16, half) - expected) <= 0.02 * expected);
    assert_true(fabs(train(LS_F16, half) - expected) <= 0.02 * expected);
}

static void training_repeats_bit_for_bit(void **state)
{
    (void)state;
    double first[STEPS], second[STEPS];
    train(LS_BF16, first);
    train(LS_BF16, second);
    assert_memory_equal(first, second, sizeof first);
}

static uint64_t blocks_of_a_step(ls_dtype dtype)
{
    model m = open_transformer(LS_TRANSFORMER_ROPE);
    ls_memory_stats before, after;
    for (int i = 0; i < 2; i++)
        run(&m, dtype, 0, 1.0);
    ls_memory_total(&before);
    run(&m, dtype, 1, 1.0);
    ls_memory_total(&after);
    close_model(&m);
    return after.allocated - before.allocated;
}

/* A step that repeats allocates no more than in f32: attention's workspace. */
static void steps_allocate_nothing(void **state)
{
    (void)state;
    const uint64_t expected = blocks_of_a_step(LS_F32);
    assert_int_equal(blocks_of_a_step(LS_BF16), expected);
    assert_int_equal(blocks_of_a_step(LS_F16), expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_of_the_toy),
        cmocka_unit_test(gradients_of_transformers),
        cmocka_unit_test(training_comes_as_far),
        cmocka_unit_test(training_repeats_bit_for_bit),
        cmocka_unit_test(steps_allocate_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
