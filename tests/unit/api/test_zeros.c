/*
 * The effect of a member of 0, for each member of each struct of options. It is
 * the default where 0 is not a setting, and 0 where it is
 * (docs/reference/abi.md).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "flat.h"
#include "lockstep/lockstep.h"
#include "testing.h"

/* ---- optimizers ---------------------------------------------------------- */

enum { STEPS = 3 };

static const double gradients[STEPS] = {2, -4, 1};

/* A parameter of one element, 1 at first, after three steps. */
static double trained(const ls_optimizer_spec *spec)
{
    const int64_t one = 1;
    size_t count;
    ls_params *params = NULL;
    ls_optimizer *optimizer = NULL;
    assert_ok(ls_params_new(&params));
    assert_ok(ls_params_add(params, "p", 1, &one,
                            (ls_init){LS_INIT_CONSTANT, 1, 0}, NULL));
    assert_ok(ls_params_allocate(params, NULL, 1));
    assert_ok(ls_optimizer_new(&optimizer, params, spec));
    for (int i = 0; i < STEPS; i++) {
        ls_params_finish_grad(params);
        flat_grad_of(params, &count)[0] = (float)gradients[i];
        assert_ok(ls_optimizer_step(optimizer, 1));
    }
    const double p = (double)flat_of(params, &count)[0];
    ls_optimizer_free(&optimizer);
    ls_params_free(&params);
    return p;
}

/* The options of any kind, with those that it does not have left out. */
typedef struct numbers {
    double lr, momentum, beta1, beta2, eps, weight_decay;
    bool decay_last;
} numbers;

static double sgd(const numbers *o)
{
    double p = 1, v = 0;
    for (int i = 0; i < STEPS; i++) {
        v = o->momentum * v + gradients[i] + o->weight_decay * p;
        p -= o->lr * v;
    }
    return p;
}

static double adamw(const numbers *o)
{
    double p = 1, m = 0, v = 0;
    for (int t = 1; t <= STEPS; t++) {
        const double g = gradients[t - 1];
        const double mean = 1 - pow(o->beta1, t), square = 1 - pow(o->beta2, t);
        m = o->beta1 * m + (1 - o->beta1) * g;
        v = o->beta2 * v + (1 - o->beta2) * g * g;
        if (!o->decay_last)
            p -= o->lr * o->weight_decay * p;
        p -= o->decay_last
                 ? o->lr * sqrt(square) / mean * m / (sqrt(v) + o->eps)
                 : o->lr / mean * m / (sqrt(v / square) + o->eps);
        if (o->decay_last)
            p -= o->lr * o->weight_decay * p;
    }
    return p;
}

static double lion(const numbers *o)
{
    double p = 1, m = 0;
    for (int i = 0; i < STEPS; i++) {
        const double c = o->beta1 * m + (1 - o->beta1) * gradients[i];
        p -= o->lr * ((c > 0) - (c < 0) + o->weight_decay * p);
        m = o->beta2 * m + (1 - o->beta2) * gradients[i];
    }
    return p;
}

#define SGD(...)                                                               \
    .sgd = &(const ls_sgd_options)                                             \
    {                                                                          \
        __VA_ARGS__                                                            \
    }
#define ADAMW(...)                                                             \
    .adamw = &(const ls_adamw_options)                                         \
    {                                                                          \
        __VA_ARGS__                                                            \
    }
#define LION(...)                                                              \
    .lion = &(const ls_lion_options)                                           \
    {                                                                          \
        __VA_ARGS__                                                            \
    }

static const struct optimizer_row {
    const char *member;
    ls_optimizer_spec spec;
    double (*reference)(const numbers *);
    numbers is;
} optimizer_rows[] = {
    {"sgd: none",
     {.kind = LS_OPTIMIZER_SGD},
     sgd,
     {.lr = 0.01, .momentum = 0.5}},
    {"sgd: struct_size, lr",
     {SGD(.momentum = 0.9, .weight_decay = 0.1)},
     sgd,
     {.lr = 0.01, .momentum = 0.9, .weight_decay = 0.1}},
    {"sgd: momentum",
     {SGD(.lr = 0.25, .weight_decay = 0.1)},
     sgd,
     {.lr = 0.25, .weight_decay = 0.1}},
    {"sgd: weight_decay",
     {SGD(.lr = 0.25, .momentum = 0.9)},
     sgd,
     {.lr = 0.25, .momentum = 0.9}},
    {"kind",
     {.kind = LS_OPTIMIZER_DEFAULT},
     adamw,
     {.lr = 1e-3,
      .beta1 = 0.9,
      .beta2 = 0.999,
      .eps = 1e-8,
      .weight_decay = 0.01}},
    {"adamw: lr, order",
     {ADAMW(.beta1 = 0.5, .beta2 = 0.75, .eps = 0.5, .weight_decay = 20)},
     adamw,
     {.lr = 1e-3, .beta1 = 0.5, .beta2 = 0.75, .eps = 0.5, .weight_decay = 20}},
    {"adamw: beta1",
     {ADAMW(.lr = 0.25, .beta2 = 0.75, .eps = 0.5)},
     adamw,
     {.lr = 0.25, .beta2 = 0.75, .eps = 0.5}},
    {"adamw: beta2",
     {ADAMW(.lr = 0.25, .beta1 = 0.5, .eps = 0.5)},
     adamw,
     {.lr = 0.25, .beta1 = 0.5, .eps = 0.5}},
    {"adamw: eps, weight_decay",
     {ADAMW(.lr = 0.25, .beta1 = 0.5, .beta2 = 0.75)},
     adamw,
     {.lr = 0.25, .beta1 = 0.5, .beta2 = 0.75, .eps = 1e-8}},
    {"lion: none",
     {.kind = LS_OPTIMIZER_LION},
     lion,
     {.lr = 1e-4, .beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0.1}},
    {"lion: lr",
     {LION(.beta1 = 0.5, .beta2 = 0.75, .weight_decay = 20)},
     lion,
     {.lr = 1e-4, .beta1 = 0.5, .beta2 = 0.75, .weight_decay = 20}},
    {"lion: beta1",
     {LION(.lr = 0.25, .beta2 = 0.75)},
     lion,
     {.lr = 0.25, .beta2 = 0.75}},
    {"lion: beta2",
     {LION(.lr = 0.25, .beta1 = 0.75)},
     lion,
     {.lr = 0.25, .beta1 = 0.75}},
};

static void zeros_of_optimizers(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(optimizer_rows); i++) {
        const struct optimizer_row *const row = &optimizer_rows[i];
        const double expected = row->reference(&row->is);
        const double got = trained(&row->spec);
        if (!(fabs(got - expected) <= 1e-6))
            fail_msg("%s: %.9g, not %.9g", row->member, got, expected);
    }
}

/* LS_..._OPTIONS_INIT, no options and no spec are the same. */
static void init_is_the_default(void **state)
{
    static const ls_sgd_options of_sgd = LS_SGD_OPTIONS_INIT;
    static const ls_adamw_options of_adamw = LS_ADAMW_OPTIONS_INIT;
    static const ls_lion_options of_lion = LS_LION_OPTIONS_INIT;
    (void)state;
    assert_int_equal(of_sgd.struct_size, sizeof of_sgd);
    assert_true(trained(&(ls_optimizer_spec){.sgd = &of_sgd}) ==
                trained(&(ls_optimizer_spec){.kind = LS_OPTIMIZER_SGD}));
    assert_true(trained(&(ls_optimizer_spec){.adamw = &of_adamw}) ==
                trained(NULL));
    assert_true(trained(&(ls_optimizer_spec){.lion = &of_lion}) ==
                trained(&(ls_optimizer_spec){.kind = LS_OPTIMIZER_LION}));
}

/* ---- other options ------------------------------------------------------- */

enum { MOST = 4096 };

/* Writes the numbers that result from options, and returns how many. */
typedef size_t run_fn(const void *options, float *out);

static ls_tensor *make(int ndim, const int64_t *shape)
{
    ls_tensor *x = NULL;
    assert_ok(ls_tensor_new(&x, LS_F32, ndim, shape));
    float *data = tensor_data(x);
    for (int64_t i = 0; i < ls_tensor_count(x); i++)
        data[i] = (float)sin(1.0 + 0.7 * (double)i);
    return x;
}

static size_t copy_out(ls_tensor *y, float *out)
{
    float *data = NULL;
    assert_non_null(y);
    const size_t n = (size_t)ls_tensor_count(y);
    assert_true(n <= MOST);
    assert_ok(ls_tensor_map_f32(y, &data));
    memcpy(out, data, n * sizeof *out);
    return n;
}

static const int64_t image[] = {2, 4, 6, 6};

static size_t run_conv2d(const void *options, float *out)
{
    const ls_conv2d_options *const o = options;
    const int64_t groups = o != NULL && o->groups > 0 ? o->groups : 1;
    ls_tape *tape = NULL;
    ls_tensor *x = make(4, image);
    ls_tensor *w = make(4, (const int64_t[]){2, 4 / groups, 3, 3});
    assert_ok(ls_tape_new(&tape));
    const size_t n = copy_out(ls_conv2d(tape, x, w, NULL, o), out);
    ls_tape_free(&tape);
    ls_tensor_free(&x);
    ls_tensor_free(&w);
    return n;
}

/* How many parameters a layer has. */
static size_t run_conv2d_layer(const void *options, float *out)
{
    ls_params *params = NULL;
    ls_conv2d_layer layer;
    assert_ok(ls_params_new(&params));
    assert_ok(ls_conv2d_layer_init(&layer, params, "c", 4, 4, 3, options));
    out[0] = (float)ls_params_count(params);
    ls_params_free(&params);
    return 1;
}

static size_t run_pool2d(const void *options, float *out)
{
    ls_tape *tape = NULL;
    ls_tensor *x = make(4, image);
    assert_ok(ls_tape_new(&tape));
    size_t n = copy_out(ls_max_pool2d(tape, x, 2, options), out);
    n += copy_out(ls_avg_pool2d(tape, x, 2, options), out + n);
    ls_tape_free(&tape);
    ls_tensor_free(&x);
    return n;
}

static size_t run_cross_entropy(const void *options, float *out)
{
    const int64_t two = 2;
    ls_tape *tape = NULL;
    ls_tensor *x = make(2, (const int64_t[]){2, 3}), *labels = NULL;
    assert_ok(ls_tensor_zeros(&labels, LS_I64, 1, &two));
    assert_ok(ls_tape_new(&tape));
    const size_t n = copy_out(ls_cross_entropy(tape, x, labels, options), out);
    ls_tape_free(&tape);
    ls_tensor_free(&labels);
    ls_tensor_free(&x);
    return n;
}

static size_t run_attention(const void *options, float *out)
{
    ls_tape *tape = NULL;
    ls_tensor *x = make(4, (const int64_t[]){1, 2, 3, 4});
    assert_ok(ls_tape_new(&tape));
    const size_t n = copy_out(ls_attention(tape, x, x, x, options), out);
    ls_tape_free(&tape);
    ls_tensor_free(&x);
    return n;
}

/* Keys and values of two heads in rows of 8; room for gaps. */
static size_t run_attention_shape(const void *shape, float *out)
{
    static const int64_t room[] = {64};
    ls_tensor *x = make(1, room);
    float *data = tensor_data(x), saved[64], o[64] = {0};
    size_t bytes;
    assert_ok(ls_attention_saved_bytes(shape, LS_ATTENTION_FLASH, &bytes));
    assert_true(bytes <= sizeof saved);
    assert_ok(ls_attention_forward(shape, LS_ATTENTION_FLASH, o, saved, data,
                                   data + 1, data + 2));
    memcpy(out, o, sizeof o);
    ls_tensor_free(&x);
    return TEST_COUNT(o);
}

/* The result, and the running statistics after it. */
static size_t run_batch_norm(const void *options, float *out)
{
    ls_batch_norm_args args = *(const ls_batch_norm_args *)options;
    const int64_t features = 4;
    ls_tape *tape = NULL;
    ls_tensor *x = make(4, image), *mean = make(1, &features);
    ls_tensor *variance = make(1, &features);
    ls_tensor *weight = make(1, &features), *residual = make(4, image);
    args.running_mean = mean;
    args.running_var = variance;
    args.weight = args.weight != NULL ? weight : NULL;
    args.bias = args.bias != NULL ? weight : NULL;
    args.residual = args.residual != NULL ? residual : NULL;
    assert_ok(ls_tape_new(&tape));
    size_t n = copy_out(ls_batch_norm(tape, x, &args), out);
    n += copy_out(mean, out + n);
    n += copy_out(variance, out + n);
    ls_tape_free(&tape);
    ls_tensor_free(&x);
    ls_tensor_free(&mean);
    ls_tensor_free(&variance);
    ls_tensor_free(&weight);
    ls_tensor_free(&residual);
    return n;
}

static size_t run_sync_bn(const void *options, float *out)
{
    ls_group *group = NULL;
    ls_params *params = NULL;
    ls_sync_bn *bn = NULL;
    ls_tape *tape = NULL;
    ls_tensor *x = make(4, image);
    assert_ok(ls_group_open_threads(&group, 1));
    assert_ok(ls_params_new(&params));
    assert_ok(ls_sync_bn_new(&bn, group, params, "bn", 4, options));
    assert_ok(ls_params_allocate(params, NULL, 1));
    assert_ok(ls_tape_new(&tape));
    size_t n = copy_out(ls_sync_bn_forward(bn, tape, x, NULL), out);
    for (size_t i = 0; i < ls_params_buffer_count(params); i++)
        n += copy_out(ls_params_buffer(params, i), out + n);
    out[n++] = (float)ls_params_count(params);
    ls_tape_free(&tape);
    ls_sync_bn_free(&bn);
    ls_params_free(&params);
    ls_group_close(&group);
    ls_tensor_free(&x);
    return n;
}

/* Two parameters, of which the loss uses one: the status, and collectives. */
static size_t run_ddp(const void *options, float *out)
{
    const int64_t length = 100;
    ls_group *group = NULL;
    ls_params *params = NULL;
    ls_tensor *used, *unused;
    ls_ddp *ddp = NULL;
    ls_tape *tape = NULL;
    ls_group_counters before, after;
    assert_ok(ls_group_open_threads(&group, 1));
    assert_ok(ls_params_new(&params));
    assert_ok(ls_params_add(params, "a", 1, &length, (ls_init){0}, &used));
    assert_ok(ls_params_add(params, "b", 1, &length, (ls_init){0}, &unused));
    assert_ok(ls_params_allocate(params, group, 1));
    assert_ok(ls_tape_new(&tape));
    assert_ok(ls_ddp_new(&ddp, group, params, options));
    ls_group_get_counters(group, &before);
    out[0] = (float)ls_ddp_backward(ddp, tape, ls_sum(tape, used), 1);
    ls_group_get_counters(group, &after);
    out[1] = (float)(after.collectives - before.collectives);
    out[2] = 0;
    ls_ddp_free(&ddp);
    ls_tape_free(&tape);
    ls_params_free(&params);
    ls_group_close(&group);
    return 2;
}

static size_t run_transformer(const void *config, float *out)
{
    static const int64_t shape[] = {1, 3};
    ls_params *params = NULL;
    ls_transformer *model = NULL;
    ls_tape *tape = NULL;
    ls_tensor *tokens = NULL;
    int64_t *data = NULL;
    assert_ok(ls_params_new(&params));
    assert_ok(ls_transformer_new(&model, params, config));
    assert_ok(ls_params_allocate(params, NULL, 1));
    assert_ok(ls_tape_new(&tape));
    assert_ok(ls_tensor_zeros(&tokens, LS_I64, 2, shape));
    assert_ok(ls_tensor_map_i64(tokens, &data));
    data[1] = 3;
    data[2] = 1;
    size_t n = copy_out(ls_transformer_forward(model, tape, tokens), out);
    out[n++] = (float)ls_params_numel(params);
    ls_tape_free(&tape);
    ls_tensor_free(&tokens);
    ls_transformer_free(&model);
    ls_params_free(&params);
    return n;
}

/* Tokens of a text of few words, and the numbers of two of them. */
static size_t run_tokenizer(const void *options, float *out)
{
    char path[] = "/tmp/lockstep-zeros-XXXXXX";
    const char *const paths[] = {path};
    ls_tokenizer *t = NULL;
    ls_group *group = NULL;
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    static const char text[] = "the then\nthe 1234 1234 1234\n";
    assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
    close(fd);
    assert_ok(ls_group_open_threads(&group, 1));
    assert_ok(ls_tokenizer_new_trained(&t, group, paths, 1, options));
    out[0] = (float)ls_tokenizer_vocabulary(t);
    out[1] = (float)ls_tokenizer_id(t, "<|endoftext|>");
    out[2] = (float)(ls_tokenizer_digest(t) % 65536);
    ls_tokenizer_close(&t);
    ls_group_close(&group);
    unlink(path);
    return 3;
}

/* Pointers that stand for a tensor of the run. */
static char stands_for_one;
#define SET ((ls_tensor *)&stands_for_one)

#define OF(type, ...) (&(const type){__VA_ARGS__})
#define CONV(...)     OF(ls_conv2d_options, __VA_ARGS__)
#define POOL(...)     OF(ls_pool2d_options, __VA_ARGS__)
#define ENTROPY(...)  OF(ls_cross_entropy_options, __VA_ARGS__)
#define ATTEND(...)   OF(ls_attention_options, __VA_ARGS__)
#define NORM(...)     OF(ls_batch_norm_args, __VA_ARGS__)
#define SYNC(...)     OF(ls_sync_bn_options, __VA_ARGS__)
#define DDP(...)      OF(ls_ddp_options, __VA_ARGS__)
#define TRAIN(...)    OF(ls_tokenizer_training, __VA_ARGS__)
#define SHAPE(...)                                                             \
    OF(ls_attention_shape, .batch = 1, .heads = 2, .queries = 3, .keys = 3,    \
       .d = 4, __VA_ARGS__)
#define MODEL(...)                                                             \
    OF(ls_transformer_config, .vocabulary = 7, .context = 4, .d_model = 8,     \
       .d_ff = 8, .layers = 1, .heads = 2, __VA_ARGS__)

static const char *const no_special[] = {NULL};
static const char *const end_of_text[] = {"<|endoftext|>"};
static const int64_t two_keys[] = {2};

/* A member of 0 does what `same` does and not what `other` does. */
static const struct row {
    const char *member;
    run_fn *run;
    const void *zero, *same, *other;
} rows[] = {
    {"conv2d: none", run_conv2d, NULL, CONV(.stride = 1), CONV(.stride = 2)},
    {"conv2d: struct_size", run_conv2d, CONV(.struct_size = 0),
     CONV(.struct_size = sizeof(ls_conv2d_options)), CONV(.stride = 2)},
    {"conv2d: stride", run_conv2d, CONV(.padding = 1),
     CONV(.stride = 1, .padding = 1), CONV(.stride = 2, .padding = 1)},
    {"conv2d: padding", run_conv2d, CONV(.stride = 2),
     CONV(.stride = 2, .groups = 1), CONV(.stride = 2, .padding = 1)},
    {"conv2d: dilation", run_conv2d, CONV(.padding = 1),
     CONV(.padding = 1, .dilation = 1), CONV(.padding = 1, .dilation = 2)},
    {"conv2d: groups", run_conv2d, CONV(.padding = 1),
     CONV(.padding = 1, .groups = 1), CONV(.padding = 1, .groups = 2)},
    {"conv2d: relu", run_conv2d, CONV(.padding = 1), CONV(.padding = 1),
     CONV(.padding = 1, .relu = true)},
    {"conv2d: no_bias", run_conv2d_layer, CONV(.padding = 1), NULL,
     CONV(.no_bias = true)},
    {"pool2d: none", run_pool2d, NULL, POOL(.stride = 2), POOL(.stride = 1)},
    {"pool2d: stride", run_pool2d, POOL(.padding = 1),
     POOL(.stride = 2, .padding = 1), POOL(.stride = 1, .padding = 1)},
    {"pool2d: padding", run_pool2d, POOL(.stride = 1), POOL(.stride = 1),
     POOL(.stride = 1, .padding = 1)},
    {"cross_entropy: smoothing", run_cross_entropy, ENTROPY(.struct_size = 0),
     NULL, ENTROPY(.smoothing = 0.5)},
    {"attention: none", run_attention, NULL,
     ATTEND(.method = LS_ATTENTION_FLASH, .scale = 0.5), ATTEND(.scale = 1)},
    {"attention: method", run_attention, ATTEND(.scale = 1),
     ATTEND(.method = LS_ATTENTION_FLASH, .scale = 1), ATTEND(.scale = 0.5)},
    {"attention: causal", run_attention, ATTEND(.scale = 1), ATTEND(.scale = 1),
     ATTEND(.scale = 1, .causal = true)},
    {"attention: scale", run_attention, ATTEND(.causal = true),
     ATTEND(.causal = true, .scale = 0.5), ATTEND(.causal = true, .scale = 1)},
    {"attention: rows_outside", run_attention, ATTEND(.causal = true),
     ATTEND(.causal = true), ATTEND(.causal = true, .rows_outside = true)},
    {"shape: kv_heads", run_attention_shape, SHAPE(.causal = true),
     SHAPE(.causal = true, .kv_heads = 2),
     SHAPE(.causal = true, .kv_heads = 1)},
    {"shape: dtype", run_attention_shape, SHAPE(.causal = true),
     SHAPE(.causal = true, .dtype = LS_F32), SHAPE(.causal = false)},
    {"shape: scale", run_attention_shape, SHAPE(.causal = true),
     SHAPE(.causal = true, .scale = 0.5), SHAPE(.causal = true, .scale = 1)},
    {"shape: key_counts", run_attention_shape, SHAPE(.causal = false),
     SHAPE(.causal = false), SHAPE(.key_counts = two_keys)},
    {"shape: q_strides", run_attention_shape, SHAPE(.causal = true),
     SHAPE(.causal = true, .q_strides = {24, 12, 4}),
     SHAPE(.causal = true, .q_strides = {24, 4, 8})},
    {"shape: kv_strides", run_attention_shape, SHAPE(.causal = true),
     SHAPE(.causal = true, .kv_strides = {24, 12, 4}),
     SHAPE(.causal = true, .kv_strides = {24, 4, 8})},
    {"shape: o_strides", run_attention_shape, SHAPE(.causal = true),
     SHAPE(.causal = true, .o_strides = {24, 12, 4}),
     SHAPE(.causal = true, .o_strides = {24, 4, 8})},
    {"batch_norm: weight", run_batch_norm, NORM(.eps = 1), NORM(.eps = 1),
     NORM(.eps = 1, .weight = SET)},
    {"batch_norm: bias", run_batch_norm, NORM(.eps = 1), NORM(.eps = 1),
     NORM(.eps = 1, .bias = SET)},
    {"batch_norm: eps", run_batch_norm, NORM(.momentum = 0.5),
     NORM(.momentum = 0.5, .eps = 1e-5), NORM(.momentum = 0.5, .eps = 1)},
    {"batch_norm: momentum", run_batch_norm, NORM(.eps = 1), NORM(.eps = 1),
     NORM(.eps = 1, .momentum = 0.1)},
    {"batch_norm: relu", run_batch_norm, NORM(.eps = 1), NORM(.eps = 1),
     NORM(.eps = 1, .relu = true)},
    {"batch_norm: residual", run_batch_norm, NORM(.eps = 1), NORM(.eps = 1),
     NORM(.eps = 1, .residual = SET)},
    {"sync_bn: none", run_sync_bn, NULL, SYNC(.eps = 1e-5, .momentum = 0.1),
     SYNC(.eps = 1e-5)},
    {"sync_bn: kind", run_sync_bn, SYNC(.eps = 1),
     SYNC(.eps = 1, .kind = LS_SYNC_BN_FUSED), SYNC(.momentum = 1)},
    {"sync_bn: no_affine", run_sync_bn, SYNC(.eps = 1), SYNC(.eps = 1),
     SYNC(.eps = 1, .no_affine = true)},
    {"sync_bn: relu", run_sync_bn, SYNC(.eps = 1), SYNC(.eps = 1),
     SYNC(.eps = 1, .relu = true)},
    {"sync_bn: eps", run_sync_bn, SYNC(.momentum = 0.1),
     SYNC(.momentum = 0.1, .eps = 1e-5), SYNC(.momentum = 0.1, .eps = 1)},
    {"ddp: none", run_ddp, NULL, DDP(.strategy = LS_DDP_FLAT),
     DDP(.unused_as_zero = true)},
    {"ddp: strategy", run_ddp, DDP(.unused_as_zero = true),
     DDP(.strategy = LS_DDP_FLAT, .unused_as_zero = true),
     DDP(.strategy = LS_DDP_NAIVE, .unused_as_zero = true)},
    {"ddp: bucket_bytes", run_ddp,
     DDP(.strategy = LS_DDP_BUCKETED, .unused_as_zero = true),
     DDP(.strategy = LS_DDP_BUCKETED, .unused_as_zero = true,
         .bucket_bytes = 1000000),
     DDP(.strategy = LS_DDP_BUCKETED, .unused_as_zero = true,
         .bucket_bytes = 4)},
    {"ddp: unused_as_zero", run_ddp, DDP(.strategy = LS_DDP_FLAT), NULL,
     DDP(.strategy = LS_DDP_FLAT, .unused_as_zero = true)},
    {"transformer: kind", run_transformer, MODEL(.norm_eps = 1e-5),
     MODEL(.kind = LS_TRANSFORMER_ROPE), MODEL(.kind = LS_TRANSFORMER_GPT2)},
    {"transformer: rope_theta", run_transformer, MODEL(.norm_eps = 0.5),
     MODEL(.norm_eps = 0.5, .rope_theta = 10000),
     MODEL(.norm_eps = 0.5, .rope_theta = 3)},
    {"transformer: rope_halves", run_transformer, MODEL(.norm_eps = 0.5),
     MODEL(.norm_eps = 0.5, .rope_halves = false),
     MODEL(.norm_eps = 0.25, .rope_halves = true)},
    {"transformer: norm_eps", run_transformer, MODEL(.rope_theta = 3),
     MODEL(.rope_theta = 3, .norm_eps = 1e-5),
     MODEL(.rope_theta = 3, .norm_eps = 0.5)},
    {"transformer: untied_head", run_transformer,
     MODEL(.kind = LS_TRANSFORMER_GPT2), MODEL(.kind = LS_TRANSFORMER_GPT2),
     MODEL(.kind = LS_TRANSFORMER_GPT2, .untied_head = true)},
    {"transformer: kv_heads", run_transformer, MODEL(.norm_eps = 0.5),
     MODEL(.norm_eps = 0.5, .kv_heads = 2),
     MODEL(.norm_eps = 0.5, .kv_heads = 1)},
    {"transformer: d_head", run_transformer, MODEL(.norm_eps = 0.5),
     MODEL(.norm_eps = 0.5, .d_head = 4), MODEL(.norm_eps = 0.5, .d_head = 2)},
    {"transformer: rope_scaling", run_transformer, MODEL(.norm_eps = 0.5),
     MODEL(.norm_eps = 0.5, .rope_scaling = {.kind = LS_ROPE_SCALING_NONE}),
     MODEL(.norm_eps = 0.5,
           .rope_scaling = {.kind = LS_ROPE_SCALING_LINEAR, .factor = 4})},
    {"training: none", run_tokenizer, NULL,
     TRAIN(.vocabulary = 32768, .least = 2, .special = end_of_text,
           .n_special = 1),
     TRAIN(.vocabulary = 258)},
    {"training: vocabulary", run_tokenizer, TRAIN(.least = 3),
     TRAIN(.least = 3, .vocabulary = 32768),
     TRAIN(.least = 3, .vocabulary = 258)},
    {"training: least", run_tokenizer, TRAIN(.vocabulary = 400),
     TRAIN(.vocabulary = 400, .least = 2),
     TRAIN(.vocabulary = 400, .least = 1)},
    {"training: pattern", run_tokenizer, TRAIN(.vocabulary = 400),
     TRAIN(.vocabulary = 400, .pattern = LS_PATTERN_GPT2),
     TRAIN(.vocabulary = 400, .pattern = LS_PATTERN_LLAMA3)},
    {"training: special", run_tokenizer, TRAIN(.vocabulary = 400),
     TRAIN(.vocabulary = 400, .special = end_of_text, .n_special = 1),
     TRAIN(.vocabulary = 400, .special = no_special)},
};

/* LS_..._INIT does what NULL does. */
static const ls_conv2d_options of_conv2d = LS_CONV2D_OPTIONS_INIT;
static const ls_pool2d_options of_pool2d = LS_POOL2D_OPTIONS_INIT;
static const ls_cross_entropy_options of_entropy =
    LS_CROSS_ENTROPY_OPTIONS_INIT;
static const ls_attention_options of_attention = LS_ATTENTION_OPTIONS_INIT;
static const ls_sync_bn_options of_sync_bn = LS_SYNC_BN_OPTIONS_INIT;
static const ls_ddp_options of_ddp = LS_DDP_OPTIONS_INIT;
static const ls_tokenizer_training of_training = LS_TOKENIZER_TRAINING_INIT;

static void inits_of_options(void **state)
{
    static const struct {
        run_fn *run;
        const void *init;
    } inits[] = {
        {run_conv2d, &of_conv2d},         {run_pool2d, &of_pool2d},
        {run_cross_entropy, &of_entropy}, {run_attention, &of_attention},
        {run_sync_bn, &of_sync_bn},       {run_ddp, &of_ddp},
        {run_tokenizer, &of_training},
    };
    static float init[MOST], null[MOST];
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(inits); i++) {
        const size_t n = inits[i].run(inits[i].init, init);
        assert_int_equal(inits[i].run(NULL, null), n);
        assert_memory_equal(init, null, n * sizeof *init);
    }
}

/* Those whose members are all 0 have their size. */
static void inits_of_zeros(void **state)
{
    static const ls_image_options images = LS_IMAGE_OPTIONS_INIT;
    static const ls_array_options arrays = LS_ARRAY_OPTIONS_INIT;
    static const ls_csv_options csv = LS_CSV_OPTIONS_INIT;
    static const ls_transformer_config config = LS_TRANSFORMER_CONFIG_INIT;
    static const ls_batch_norm_args norm = LS_BATCH_NORM_ARGS_INIT;
    (void)state;
    assert_int_equal(images.struct_size, sizeof images);
    assert_int_equal(arrays.struct_size, sizeof arrays);
    assert_int_equal(csv.struct_size, sizeof csv);
    assert_int_equal(config.struct_size, sizeof config);
    assert_int_equal(config.rope_scaling.kind, LS_ROPE_SCALING_NONE);
    assert_int_equal(norm.struct_size, sizeof norm);
    assert_true(norm.eps == 1e-5 && norm.momentum == 0.1);
}

static void zeros_of_options(void **state)
{
    static float zero[MOST], same[MOST], other[MOST];
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        const struct row *const r = &rows[i];
        const size_t n = r->run(r->zero, zero);
        if (r->run(r->same, same) != n ||
            memcmp(zero, same, n * sizeof *zero) != 0)
            fail_msg("%s of 0 is not its default", r->member);
        if (r->run(r->other, other) == n &&
            memcmp(zero, other, n * sizeof *zero) == 0)
            fail_msg("%s makes no difference", r->member);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zeros_of_optimizers),
        cmocka_unit_test(init_is_the_default),
        cmocka_unit_test(zeros_of_options),
        cmocka_unit_test(inits_of_options),
        cmocka_unit_test(inits_of_zeros),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
