/*
 * Attention on the tape: layouts, types, which gradients are computed and how
 * they accumulate, and errors that stick. Its gradients are checked with those
 * of all operations.
 */
#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "lockstep/attention.h"
#include "lockstep/profile.h"
#include "testing.h"

enum { BATCH = 2, HEADS = 4, KV_HEADS = 2, QUERIES = 5, KEYS = 6, D = 8 };

static ls_tape *new_tape(void)
{
    ls_tape *tape = NULL;
    assert_ok(ls_tape_new(&tape));
    return tape;
}

static ls_tensor *random_tensor(const int64_t shape[4], uint64_t seed)
{
    ls_tensor *tensor = NULL;
    assert_ok(ls_tensor_new(&tensor, LS_F32, 4, shape));
    float *data = tensor_data(tensor);
    for (int64_t i = 0; i < ls_tensor_count(tensor); i++)
        data[i] = (float)lsi_rng_normal((lsi_rng_key){seed, 0}, 0, (uint64_t)i);
    return tensor;
}

/* q, k, v and the weights of the output in the loss. */
typedef struct inputs {
    ls_tensor *x[4];
    ls_attention_options options;
} inputs;

static inputs new_inputs(ls_attention_options options)
{
    const bool outside = options.rows_outside;
    inputs in = {.options = options};
    for (int i = 0; i < 4; i++) {
        const int64_t heads = i == 0 || i == 3 ? HEADS : KV_HEADS;
        const int64_t rows = i == 0 || i == 3 ? QUERIES : KEYS;
        const int64_t shape[] = {BATCH, outside ? rows : heads,
                                 outside ? heads : rows, D};
        in.x[i] = random_tensor(shape, (uint64_t)i);
    }
    return in;
}

static void free_inputs(inputs *in)
{
    for (int i = 0; i < 4; i++)
        ls_tensor_free(&in->x[i]);
}

/* sum of attention(q, k, v) * w; recorded if `gradients` is not NULL. */
static double loss_of(const inputs *in, float *gradients[3])
{
    ls_tape *tape = new_tape();
    for (int i = 0; gradients != NULL && i < 3; i++)
        assert_ok(ls_tape_watch(tape, in->x[i]));
    ls_tensor *o =
        ls_attention(tape, in->x[0], in->x[1], in->x[2], &in->options);
    ls_tensor *loss = ls_sum(tape, ls_mul(tape, o, in->x[3]));
    assert_ok(ls_tape_status(tape));
    double value;
    assert_ok(ls_tensor_item(loss, &value));
    if (gradients != NULL)
        assert_ok(ls_backward(tape, loss, 1.0));
    for (int i = 0; gradients != NULL && i < 3; i++) {
        const ls_tensor *grad = ls_tape_grad(tape, in->x[i]);
        const size_t bytes = (size_t)ls_tensor_count(grad) * sizeof(float);
        gradients[i] = malloc(bytes);
        assert_non_null(gradients[i]);
        memcpy(gradients[i], tensor_data(grad), bytes);
    }
    ls_tape_free(&tape);
    return value;
}

/* The same inputs in both layouts give the same outputs, element by element. */
static void layouts_agree(void **state)
{
    (void)state;
    inputs in = new_inputs((ls_attention_options){.causal = true});
    ls_tape *tape = new_tape();
    ls_tensor *inside =
        ls_attention(tape, in.x[0], in.x[1], in.x[2], &in.options);
    in.options.rows_outside = true;
    ls_tensor *outside =
        ls_attention(tape, ls_transpose(tape, in.x[0], 1, 2),
                     ls_transpose(tape, in.x[1], 1, 2),
                     ls_transpose(tape, in.x[2], 1, 2), &in.options);
    ls_tensor *back = ls_cast(tape, ls_transpose(tape, outside, 1, 2), LS_F32);
    assert_ok(ls_tape_status(tape));
    ls_tensor *plain = NULL;
    assert_ok(ls_tensor_zeros(&plain, LS_F32, 4, ls_tensor_shape(inside)));
    assert_ok(ls_tensor_copy(plain, back));
    assert_memory_equal(tensor_data(plain), tensor_data(inside),
                        (size_t)ls_tensor_count(inside) * sizeof(float));
    ls_tensor_free(&plain);
    ls_tape_free(&tape);
    free_inputs(&in);
}

/* One tensor as q, k and v: its gradient is the sum of the three. */
static void self_attention_accumulates(void **state)
{
    (void)state;
    const int64_t shape[] = {1, 2, 9, D};
    inputs in = {.options = {.causal = true}};
    for (int i = 0; i < 4; i++)
        in.x[i] = random_tensor(shape, i == 3 ? 1 : 0);
    float *apart[3];
    loss_of(&in, apart);

    ls_tape *tape = new_tape();
    assert_ok(ls_tape_watch(tape, in.x[0]));
    ls_tensor *o = ls_attention(tape, in.x[0], in.x[0], in.x[0], &in.options);
    assert_ok(ls_backward(tape, ls_sum(tape, ls_mul(tape, o, in.x[3])), 1.0));
    const float *got = tensor_data(ls_tape_grad(tape, in.x[0]));
    for (int64_t i = 0; i < ls_tensor_count(in.x[0]); i++)
        assert_true(fabsf(got[i] - (apart[0][i] + apart[1][i] + apart[2][i])) <
                    1e-5F);
    for (int i = 0; i < 3; i++)
        free(apart[i]);
    ls_tape_free(&tape);
    free_inputs(&in);
}

static void only_what_is_needed(void **state)
{
    (void)state;
    inputs in = new_inputs((ls_attention_options){0});
    float *all[3];
    loss_of(&in, all);
    ls_tape *tape = new_tape();
    assert_ok(ls_tape_watch(tape, in.x[1]));
    ls_tensor *o = ls_attention(tape, in.x[0], in.x[1], in.x[2], &in.options);
    assert_ok(ls_backward(tape, ls_sum(tape, ls_mul(tape, o, in.x[3])), 1.0));
    assert_memory_equal(tensor_data(ls_tape_grad(tape, in.x[1])), all[1],
                        (size_t)ls_tensor_count(in.x[1]) * sizeof(float));
    for (int i = 0; i < 3; i++)
        free(all[i]);
    ls_tape_free(&tape);
    free_inputs(&in);
}

static void half_types(void **state)
{
    (void)state;
    inputs in = new_inputs((ls_attention_options){.causal = true});
    float *want[3];
    loss_of(&in, want);
    ls_tape *tape = new_tape();
    ls_tensor *half[3];
    for (int i = 0; i < 3; i++) {
        assert_ok(ls_tape_watch(tape, in.x[i]));
        half[i] = ls_cast(tape, in.x[i], LS_BF16);
    }
    ls_tensor *o = ls_attention(tape, half[0], half[1], half[2], &in.options);
    assert_int_equal(ls_tensor_dtype(o), LS_BF16);
    ls_tensor *loss =
        ls_sum(tape, ls_mul(tape, ls_cast(tape, o, LS_F32), in.x[3]));
    assert_ok(ls_backward(tape, loss, 1.0));
    for (int i = 0; i < 3; i++) {
        const float *got = tensor_data(ls_tape_grad(tape, in.x[i]));
        for (int64_t j = 0; j < ls_tensor_count(in.x[i]); j++)
            assert_true(fabsf(got[j] - want[i][j]) <= 0.1F);
        free(want[i]);
    }
    ls_tape_free(&tape);
    free_inputs(&in);
}

static void wrong_shapes(void **state)
{
    (void)state;
    inputs in = new_inputs((ls_attention_options){0});
    const ls_attention_options options = {0};
    ls_tape *tape = new_tape();
    assert_null(ls_attention(tape, in.x[0], in.x[1], in.x[3], &options));
    assert_error(ls_tape_status(tape), LS_ERR_SHAPE, "must be equal");
    ls_tape_reset(tape);
    ls_tensor *odd = random_tensor((const int64_t[]){BATCH, 3, KEYS, D}, 1);
    assert_null(ls_attention(tape, in.x[0], odd, odd, &options));
    assert_error(ls_tape_status(tape), LS_ERR_SHAPE, "multiple");
    ls_tape_reset(tape);
    ls_tensor *wide = random_tensor((const int64_t[]){BATCH, 2, KEYS, 9}, 1);
    assert_null(ls_attention(tape, in.x[0], wide, wide, &options));
    assert_error(ls_tape_status(tape), LS_ERR_SHAPE, "the same d");
    ls_tape_reset(tape);
    ls_tensor *half = ls_cast(tape, in.x[1], LS_BF16);
    assert_null(ls_attention(tape, in.x[0], half, half, &options));
    assert_error(ls_tape_status(tape), LS_ERR_DTYPE, "bf16");
    ls_tensor_free(&odd);
    ls_tensor_free(&wide);
    ls_tape_free(&tape);
    free_inputs(&in);
}

/* 64 MiB of scores where 16 are left: only flash fits. */
static void naive_over_budget(void **state)
{
    (void)state;
    const int64_t shape[] = {1, 1, 4096, D};
    ls_tensor *x = random_tensor(shape, 4);
    ls_tape *tape = new_tape();
    ls_memory_stats now;
    ls_memory_total(&now);
    ls_memory_set_budget(now.live_bytes + (16U << 20));
    assert_null(ls_attention(
        tape, x, x, x, &(ls_attention_options){.method = LS_ATTENTION_NAIVE}));
    assert_int_equal(ls_tape_status(tape), LS_ERR_BUDGET);
    ls_tape_reset(tape);
    assert_non_null(ls_attention(tape, x, x, x, NULL));
    ls_memory_set_budget(0);
    ls_tape_free(&tape);
    ls_tensor_free(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts_agree),
        cmocka_unit_test(self_attention_accumulates),
        cmocka_unit_test(only_what_is_needed),
        cmocka_unit_test(half_types),
        cmocka_unit_test(wrong_shapes),
        cmocka_unit_test(naive_over_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
