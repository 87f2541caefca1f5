/*
 * Activation checkpointing: the same bits as without, less memory, and what it
 * refuses.
 */
#include "testing.h"

#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "lockstep/nn.h"
#include "lockstep/profile.h"

enum { LAYERS = 4, ROWS = 6, WIDTH = 24, MOST = 1 << 14 };

typedef struct net {
    ls_params *params;
    ls_tensor *weights[LAYERS], *shared, *scale;
    ls_batch_norm_layer norms[LAYERS];
    ls_tape *tape;
    ls_dtype dtype;
    int recompute; /* 0: not; 1: each layer; 2: two in a call, nested */
} net;

typedef struct layer {
    net *net;
    int number;
} layer;

static ls_tensor *weight(ls_params *params, const char *name, int64_t rows)
{
    ls_tensor *out = NULL;
    assert_ok(ls_params_add(params, name, 2, (int64_t[]){rows, WIDTH},
                            (ls_init){LS_INIT_NORMAL, 0, 0.2}, &out));
    return out;
}

static void make(net *n, int recompute, ls_dtype dtype)
{
    *n = (net){.recompute = recompute, .dtype = dtype};
    assert_ok(ls_params_new(&n->params));
    for (int i = 0; i < LAYERS; i++) {
        char name[32];
        snprintf(name, sizeof name, "w%d", i);
        n->weights[i] = weight(n->params, name, WIDTH);
        snprintf(name, sizeof name, "bn%d", i);
        assert_ok(ls_batch_norm_layer_init(&n->norms[i], n->params, name, WIDTH,
                                           LS_LAYER_DEFAULT));
    }
    n->shared = weight(n->params, "shared", WIDTH);
    n->scale = weight(n->params, "scale", ROWS);
    assert_ok(ls_params_allocate(n->params, NULL, 1));
    assert_ok(ls_tape_new(&n->tape));
    assert_ok(ls_tape_set_autocast(n->tape, dtype));
}

static void drop(net *n)
{
    ls_tape_free(&n->tape);
    ls_params_free(&n->params);
}

/* Two inputs, a parameter that all layers use, dropout, running statistics. */
static ls_tensor *forward_layer(void *context, ls_tape *tape,
                                ls_tensor *const *inputs)
{
    const layer *l = context;
    ls_tensor *x = inputs[0];
    ls_tensor *h = ls_linear(tape, x, l->net->weights[l->number], NULL);
    h = ls_batch_norm_layer_forward(&l->net->norms[l->number], tape, h);
    h = ls_dropout(tape, ls_gelu(tape, h), 0.25);
    h = ls_linear(tape, h, l->net->shared, NULL);
    return ls_add(tape, x, ls_mul(tape, h, inputs[1]));
}

static ls_tensor *forward_two(void *context, ls_tape *tape,
                              ls_tensor *const *inputs)
{
    layer *l = context;
    ls_tensor *const next[] = {ls_recompute(tape, forward_layer, l, inputs, 2),
                               inputs[1]};
    return forward_layer(l + 1, tape, next);
}

static ls_tensor *forward(net *n, layer *layers, ls_tensor *x)
{
    ls_tensor *both[] = {ls_dropout(n->tape, x, 0.5), ls_relu(n->tape, x)};
    const int each = n->recompute == 2 ? 2 : 1;
    for (int i = 0; i < LAYERS; i += each) {
        layers[i] = (layer){n, i};
        if (each == 2)
            layers[i + 1] = (layer){n, i + 1};
        if (n->recompute == 0)
            both[0] = forward_layer(&layers[i], n->tape, both);
        else
            both[0] =
                ls_recompute(n->tape, each == 2 ? forward_two : forward_layer,
                             &layers[i], both, 2);
    }
    /* The inputs of the layers are used behind them, too. */
    return ls_mean(n->tape, ls_mul(n->tape, both[0], both[1]));
}

static size_t copy(float *out, const ls_tensor *tensor)
{
    memcpy(out, tensor_data(tensor),
           (size_t)ls_tensor_count(tensor) * sizeof(float));
    return (size_t)ls_tensor_count(tensor);
}

/* Losses, gradients and running statistics of three steps; how many numbers. */
static size_t run(int recompute, ls_dtype dtype, float out[MOST])
{
    size_t at = 0;
    net n;
    layer layers[LAYERS];
    make(&n, recompute, dtype);
    ls_tape_set_random(n.tape, 5, 0, 1);
    for (int step = 0; step < 3; step++) {
        ls_tensor *x =
            ls_tape_output(n.tape, LS_F32, 2, (int64_t[]){ROWS, WIDTH});
        for (int i = 0; i < ROWS * WIDTH; i++)
            ((float *)tensor_data(x))[i] = (float)lsi_rng_normal(
                (lsi_rng_key){3, 4}, (uint64_t)step, (uint64_t)i);
        assert_ok(ls_tape_watch(n.tape, x));
        ls_params_zero_grad(n.params);
        ls_tensor *loss = forward(&n, layers, x);
        assert_ok(ls_backward(n.tape, loss, 8));
        ls_params_finish_grad(n.params);
        at += copy(out + at, loss);
        at += copy(out + at, ls_tape_grad(n.tape, x));
        for (size_t i = 0; i < ls_params_count(n.params); i++)
            at += copy(out + at, ls_grad(ls_params_get(n.params, i)));
        ls_tape_reset(n.tape);
    }
    for (size_t i = 0; i < ls_params_buffer_count(n.params); i++)
        at += copy(out + at, ls_params_buffer(n.params, i));
    drop(&n);
    assert_true(at < MOST);
    return at;
}

static void the_same_bits(void **state)
{
    (void)state;
    static float wanted[MOST], found[MOST];
    static const ls_dtype dtypes[] = {LS_F32, LS_BF16};
    for (size_t d = 0; d < TEST_COUNT(dtypes); d++) {
        const size_t n = run(0, dtypes[d], wanted);
        for (int recompute = 1; recompute <= 2; recompute++) {
            memset(found, 0, sizeof found);
            assert_int_equal(run(recompute, dtypes[d], found), n);
            assert_memory_equal(found, wanted, n * sizeof(float));
        }
    }
}

/* ---- hooks --------------------------------------------------------------- */

static ls_status count(void *context, size_t index)
{
    ((int *)context)[index]++;
    return LS_OK;
}

/* Each gradient is final once, and then it is. */
static void gradients_are_final_once(void **state)
{
    (void)state;
    int times[64] = {0};
    net n;
    layer layers[LAYERS];
    make(&n, 1, LS_F32);
    ls_params_on_grad_ready(n.params, count, times);
    ls_tensor *x = ls_tape_output(n.tape, LS_F32, 2, (int64_t[]){ROWS, WIDTH});
    assert_ok(ls_tensor_fill(x, 0.5));
    assert_ok(ls_tape_watch(n.tape, x));
    assert_ok(ls_backward(n.tape, forward(&n, layers, x), 1));
    for (size_t i = 0; i < ls_params_count(n.params); i++)
        assert_int_equal(times[i],
                         ls_params_get(n.params, i) == n.scale ? 0 : 1);
    drop(&n);
}

/* ---- memory -------------------------------------------------------------- */

static ls_tensor *grow(void *context, ls_tape *tape, ls_tensor *const *inputs)
{
    ls_tensor *h = inputs[0];
    (void)context;
    for (int i = 0; i < 8; i++)
        h = ls_gelu(tape, h);
    return h;
}

static uint64_t peak_of(bool recompute)
{
    const int64_t many = 1 << 16;
    ls_tape *tape = NULL;
    ls_tensor *x = NULL;
    ls_memory_stats stats;
    assert_ok(ls_tape_new(&tape));
    assert_ok(ls_tensor_new(&x, LS_F32, 1, &many));
    assert_ok(ls_tensor_fill(x, 0.5));
    assert_ok(ls_tape_watch(tape, x));
    ls_memory_reset_peak();
    ls_tensor *h = x;
    for (int i = 0; i < 8; i++)
        h = recompute ? ls_recompute(tape, grow, NULL, &h, 1)
                      : grow(NULL, tape, &h);
    assert_ok(ls_backward(tape, ls_sum(tape, h), 1));
    ls_memory_total(&stats);
    ls_tape_free(&tape);
    ls_tensor_free(&x);
    return stats.peak_bytes;
}

/* 64 activations, or 8 and those of one call. */
static void less_memory(void **state)
{
    (void)state;
    const uint64_t all = peak_of(false), some = peak_of(true);
    assert_true(all > 64 * (4U << 16));
    assert_true(some < 24 * (4U << 16));
}

/* ---- refusals ------------------------------------------------------------ */

static ls_tensor *nothing(void *context, ls_tape *tape,
                          ls_tensor *const *inputs)
{
    (void)context;
    (void)tape;
    (void)inputs;
    return NULL;
}

static ls_tensor *fails(void *context, ls_tape *tape, ls_tensor *const *inputs)
{
    (void)context;
    return ls_softmax(tape, inputs[0], 7);
}

static ls_tensor *smuggles(void *context, ls_tape *tape,
                           ls_tensor *const *inputs)
{
    return ls_add(tape, inputs[0], context);
}

static void expect(ls_tape *tape, ls_recompute_fn fn, ls_tensor *context,
                   ls_tensor *x, const char *message)
{
    assert_null(ls_recompute(tape, fn, context, &x, 1));
    assert_error(ls_tape_status(tape), LS_ERR_ARGUMENT, message);
    ls_tape_reset(tape);
}

static void refusals(void **state)
{
    (void)state;
    const int64_t n = 3;
    ls_tape *tape = NULL;
    assert_ok(ls_tape_new(&tape));
    for (int i = 0; i < 4; i++) {
        ls_tensor *x = ls_tape_output(tape, LS_F32, 1, &n);
        assert_ok(ls_tensor_fill(x, 1));
        assert_ok(ls_tape_watch(tape, x));
        ls_tensor *y = ls_relu(tape, x);
        if (i == 0)
            expect(tape, NULL, NULL, x, "ls_recompute: fn is NULL");
        if (i == 1)
            expect(tape, nothing, NULL, x, "the function returned NULL");
        if (i == 2)
            expect(tape, fails, NULL, x, "axis");
        if (i == 3)
            expect(tape, smuggles, y, x, "not one of its inputs");
    }
    /* Evaluation is a plain call. */
    ls_tape_set_training(tape, false);
    ls_tensor *x = ls_tape_output(tape, LS_F32, 1, &n);
    assert_ok(ls_tensor_fill(x, 1));
    assert_non_null(ls_recompute(tape, grow, NULL, &x, 1));
    ls_tape_free(&tape);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_bits),
        cmocka_unit_test(gradients_are_final_once),
        cmocka_unit_test(less_memory),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
