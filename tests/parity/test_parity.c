/* Our results against PyTorch's in double precision (make_vectors.py). */
#include <math.h>
#include <stdio.h>

#include "lockstep/optim.h"
#include "parity.h"

static void conv2d(const char *name, const int64_t *x, const int64_t *weight,
                   const ls_conv2d_options *options)
{
    operation op = begin(name);
    add_input(&op, 4, x, 1.0F);
    add_input(&op, 4, weight, 0.125F);
    add_input(&op, 1, weight, 0.125F);
    ls_tensor *y = ls_conv2d(op.tape, op.in[0], op.in[1], op.in[2], options);
    const int64_t *out = ls_tensor_shape(y);
    const double taps = (double)(weight[2] * weight[3]);
    const double pixels = (double)(out[0] * out[2] * out[3]);
    finish(&op, y,
           (const double[]){taps * (double)x[1], taps * (double)weight[0],
                            pixels, pixels});
    end(&op);
}

static void convolutions(void **state)
{
    (void)state;
    conv2d("conv2d_strided", (const int64_t[]){2, 3, 8, 9},
           (const int64_t[]){5, 3, 3, 3},
           &(ls_conv2d_options){.stride = 2, .padding = 1});
    conv2d("conv2d_first", (const int64_t[]){2, 3, 12, 12},
           (const int64_t[]){32, 3, 3, 3}, &(ls_conv2d_options){.relu = true});
    conv2d("conv2d_middle", (const int64_t[]){4, 32, 14, 14},
           (const int64_t[]){32, 32, 3, 3}, NULL);
}

static void linear(void **state)
{
    (void)state;
    operation op = begin("linear");
    add_input(&op, 2, (const int64_t[]){6, 19}, 1.0F);
    add_input(&op, 2, (const int64_t[]){11, 19}, 0.25F);
    add_input(&op, 1, (const int64_t[]){11}, 1.0F);
    ls_tensor *y = ls_linear(op.tape, op.in[0], op.in[1], op.in[2]);
    finish(&op, y, (const double[]){20, 11, 6, 6});
    end(&op);
}

static void max_pool(void **state)
{
    (void)state;
    operation op = begin("max_pool2d");
    add_input(&op, 4, (const int64_t[]){2, 5, 9, 7}, 1.0F);
    finish(&op, ls_max_pool2d(op.tape, op.in[0], 2, NULL),
           (const double[]){1, 1});
    end(&op);
}

/* Mean, variance, normalisation: three sums over the 13 rows in a row. */
static void batch_norm(void **state)
{
    (void)state;
    const int64_t columns = 10;
    operation op = begin("batch_norm");
    add_input(&op, 2, (const int64_t[]){13, 10}, 1.0F);
    add_input(&op, 1, &columns, 1.0F);
    add_input(&op, 1, &columns, 1.0F);
    ls_tensor *mean = values(4, 1, &columns, 1.0F);
    ls_tensor *var = values(5, 1, &columns, 1.0F);
    float *v = tensor_data(var);
    for (int i = 0; i < 10; i++)
        v[i] = fabsf(v[i]);
    const ls_batch_norm_args args = {.weight = op.in[1],
                                     .bias = op.in[2],
                                     .running_mean = mean,
                                     .running_var = var,
                                     .eps = 1e-5,
                                     .momentum = 0.1};
    ls_tensor *y = ls_batch_norm(op.tape, op.in[0], &args);
    finish(&op, y, (const double[]){26, 52, 39, 13});
    check("batch_norm.mean", mean, 13);
    check("batch_norm.var", var, 26);
    ls_tape_reset(op.tape);
    ls_tape_set_training(op.tape, false);
    check("batch_norm.eval", ls_batch_norm(op.tape, op.in[0], &args), 26);
    ls_tensor_free(&mean);
    ls_tensor_free(&var);
    end(&op);
}

static void cross_entropy(void **state)
{
    (void)state;
    operation op = begin("cross_entropy");
    add_input(&op, 2, (const int64_t[]){12, 10}, 4.0F);
    ls_tensor *classes = labels(2, 12, 10);
    ls_tensor *loss = ls_cross_entropy(op.tape, op.in[0], classes, NULL);
    assert_ok(ls_backward(op.tape, loss, 1.0));
    check("cross_entropy.y", loss, 22);
    check("cross_entropy.dx", ls_tape_grad(op.tape, op.in[0]), 22);
    ls_tensor_free(&classes);
    end(&op);
}

/* ---- the CIFAR-100 network, without dropout ------------------------------ */

enum { BATCH = 4, PARAMETERS = 10 };

typedef struct parameter {
    const char *name;
    int ndim;
    int64_t shape[4];
    float scale;
} parameter;

static const parameter parameters[PARAMETERS] = {
    {"conv1.weight", 4, {32, 3, 3, 3}, 0.25F},
    {"conv1.bias", 1, {32}, 0.25F},
    {"conv2.weight", 4, {32, 32, 3, 3}, 0.0625F},
    {"conv2.bias", 1, {32}, 0.0625F},
    {"fc1.weight", 2, {128, 6272}, 0x1p-6F},
    {"fc1.bias", 1, {128}, 0x1p-6F},
    {"bn.weight", 1, {128}, 1.0F},
    {"bn.bias", 1, {128}, 1.0F},
    {"fc2.weight", 2, {100, 128}, 0.125F},
    {"fc2.bias", 1, {100}, 0.125F},
};

typedef struct network {
    ls_params *params;
    ls_tensor *p[PARAMETERS];
    ls_tensor *running_mean, *running_var;
} network;

static void open_network(network *net, uint64_t seed)
{
    const ls_init zero = {LS_INIT_CONSTANT, 0.0, 0.0};
    const ls_init one = {LS_INIT_CONSTANT, 1.0, 0.0};
    const int64_t features = 128;
    assert_ok(ls_params_new(&net->params));
    for (int i = 0; i < PARAMETERS; i++)
        assert_ok(ls_params_add(net->params, parameters[i].name,
                                parameters[i].ndim, parameters[i].shape, zero,
                                &net->p[i]));
    assert_ok(ls_params_add_buffer(net->params, "mean", 1, &features, zero,
                                   &net->running_mean));
    assert_ok(ls_params_add_buffer(net->params, "var", 1, &features, one,
                                   &net->running_var));
    assert_ok(ls_params_allocate(net->params, NULL, 0));
    for (int i = 0; i < PARAMETERS; i++)
        fill(net->p[i], seed + (uint64_t)i, parameters[i].scale);
}

static ls_tensor *forward(const network *net, ls_tape *tape, ls_tensor *x)
{
    ls_tensor *const *p = net->p;
    const ls_conv2d_options relu = {.relu = true};
    const ls_batch_norm_args bn = {.weight = p[6],
                                   .bias = p[7],
                                   .running_mean = net->running_mean,
                                   .running_var = net->running_var,
                                   .eps = 1e-5,
                                   .momentum = 0.1};
    ls_tensor *h = ls_conv2d(tape, x, p[0], p[1], &relu);
    h = ls_max_pool2d(tape, ls_conv2d(tape, h, p[2], p[3], &relu), 2, NULL);
    h = ls_linear(tape, ls_flatten(tape, h), p[4], p[5]);
    h = ls_relu(tape, ls_batch_norm(tape, h, &bn));
    return ls_linear(tape, h, p[8], p[9]);
}

/*
 * Forward: sums of 27, 288 and 6272 products, statistics of 4, sums of 128.
 * Backward adds 100, 128, 4, 128, 288 and the pixels of the last one.
 */
static void cifar_network(void **state)
{
    (void)state;
    const uint64_t seed = read_seed("network.seed");
    network net;
    ls_tape *tape = NULL;
    open_network(&net, seed);
    assert_ok(ls_tape_new(&tape));
    ls_tensor *x =
        values(seed + 50, 4, (const int64_t[]){BATCH, 3, 32, 32}, 1.0F);
    ls_tensor *y = labels(seed + 51, BATCH, 100);
    assert_ok(ls_tape_watch(tape, x));
    ls_tensor *logits = forward(&net, tape, x);
    ls_tensor *loss = ls_cross_entropy(tape, logits, y, NULL);
    assert_ok(ls_backward(tape, loss, 1.0));
    const double deep = 27 + 288 + 6272 + 4 + 128;
    const double back = deep + 100 + 128 + 4 + 128 + 288;
    check("network.logits", logits, deep);
    check("network.loss", loss, deep + 100);
    check("network.dx", ls_tape_grad(tape, x), back);
    for (int i = 0; i < PARAMETERS; i++) {
        char name[32];
        snprintf(name, sizeof name, "network.d%s", parameters[i].name);
        /* A term that is added before a normalisation has gradient 0, made of
         * terms as large as those of the normalisation's own bias. */
        const bool cancels = strcmp(parameters[i].name, "fc1.bias") == 0;
        check_cancelling(name, ls_grad(net.p[i]), back + BATCH * 30 * 30,
                         cancels ? 1.0 : 0.0);
    }
    ls_tape_free(&tape);
    ls_params_free(&net.params);
    ls_tensor_free(&x);
    ls_tensor_free(&y);
}

/*
 * Ten steps of nine roundings each of values that are at most about 1; the
 * means of gradients may cancel, but then they hardly move anything.
 */
static void check_adamw(const char *name, ls_adamw_order order)
{
    const int64_t n = 257;
    ls_params *params = NULL;
    ls_tensor *p = NULL;
    ls_optimizer *optimizer = NULL;
    ls_adamw_options options = LS_ADAMW_OPTIONS_INIT;
    options.lr = options.weight_decay = 0.1;
    options.order = order;
    assert_ok(ls_params_new(&params));
    assert_ok(ls_params_add(params, "p", 1, &n, (ls_init){0}, &p));
    assert_ok(ls_params_allocate(params, NULL, 0));
    fill(p, 1, 1.0F);
    assert_ok(ls_optimizer_new(&optimizer, params,
                               &(ls_optimizer_spec){.adamw = &options}));
    ls_params_finish_grad(params);
    for (uint64_t step = 0; step < 10; step++) {
        fill(ls_grad(p), 10 + step, 1.0F);
        assert_ok(ls_optimizer_step(optimizer, 1));
    }
    check(name, p, 90);
    ls_optimizer_free(&optimizer);
    ls_params_free(&params);
}

static void adamw(void **state)
{
    (void)state;
    check_adamw("adamw.decay_first", LS_ADAMW_DECAY_FIRST);
    check_adamw("adamw.decay_last", LS_ADAMW_DECAY_LAST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions),  cmocka_unit_test(linear),
        cmocka_unit_test(max_pool),      cmocka_unit_test(batch_norm),
        cmocka_unit_test(cross_entropy), cmocka_unit_test(adamw),
        cmocka_unit_test(cifar_network), cmocka_unit_test(every_line_was_read),
    };
    return run_with_vectors(tests);
}
