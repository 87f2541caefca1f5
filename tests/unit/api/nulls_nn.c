/* Attention, layers and transformers; and what a failed forward leads to. */
#include <stdlib.h>
#include <unistd.h>

#include "unit/api/nulls.h"

void nulls_of_attention(void **state)
{
    const ls_attention_shape s = {
        .batch = 1, .heads = 1, .queries = 1, .keys = 1, .d = 1};
    const ls_attention_shape empty = {.d = 1};
    float a[9] = {0};
    size_t bytes = 0;
    (void)state;
    REFUSES(ls_attention_saved_bytes, "shape bytes", P(shape, &s),
            LS_ATTENTION_FLASH, P(bytes, &bytes));
    REFUSES(ls_attention_forward, "shape o saved q k v", P(shape, &s),
            LS_ATTENTION_FLASH, P(o, a), P(saved, a + 1), P(q, a + 2),
            P(k, a + 3), P(v, a + 4));
    REFUSES(ls_attention_backward, "shape dq dk dv dout q k v o saved",
            P(shape, &s), LS_ATTENTION_NAIVE, P(dq, a), P(dk, a + 1),
            P(dv, a + 2), P(dout, a + 3), P(q, a + 4), P(k, a + 5), P(v, a + 6),
            P(o, a + 7), P(saved, a + 8));
    assert_ok(ls_attention_forward(&empty, LS_ATTENTION_FLASH, NULL, NULL, NULL,
                                   NULL, NULL));
}

/* ---- layers -------------------------------------------------------------- */

static const int64_t shape23[] = {2, 3}, two[] = {2};

static void nulls_of_making(ls_params *params)
{
    const ls_conv2d_options options = {0};
    ls_linear_layer linear;
    ls_conv2d_layer conv;
    ls_batch_norm_layer norm;
    REFUSES(ls_linear_layer_init, "layer params name", P(layer, &linear),
            P(params, params), P(name, "l"), 2, 2, LS_LAYER_DEFAULT);
    REFUSES(ls_conv2d_layer_init, "layer params name", P(layer, &conv),
            P(params, params), P(name, "c"), 2, 2, 1, &options);
    REFUSES(ls_batch_norm_layer_init, "layer params name", P(layer, &norm),
            P(params, params), P(name, "n"), 2, LS_LAYER_DEFAULT);
    ls_layer_norm_layer rows;
    ls_group_norm_layer groups;
    REFUSES(ls_layer_norm_layer_init, "layer params name", P(layer, &rows),
            P(params, params), P(name, "r"), 2);
    REFUSES(ls_group_norm_layer_init, "layer params name", P(layer, &groups),
            P(params, params), P(name, "g"), 2, 1, LS_LAYER_DEFAULT);
    assert_int_equal(ls_params_count(params), 0);
    TAKES(ls_conv2d_layer_init, "options", &conv, params, "no options", 2, 2, 1,
          P(options, &options));
}

static void nulls_of_forwards(ls_tape *tape, ls_tensor *x)
{
    const ls_linear_layer linear = {0};
    const ls_conv2d_layer conv = {0};
    const ls_batch_norm_layer norm = {0};
    STOPS(tape, ls_linear_layer_forward, "layer tape x", P(layer, &linear),
          P(tape, tape), P(x, x));
    STOPS(tape, ls_conv2d_layer_forward, "layer tape x", P(layer, &conv),
          P(tape, tape), P(x, x));
    const ls_layer_norm_layer rows = {0};
    const ls_group_norm_layer groups = {0};
    STOPS(tape, ls_layer_norm_layer_forward, "layer tape x", P(layer, &rows),
          P(tape, tape), P(x, x));
    STOPS(tape, ls_group_norm_layer_forward, "layer tape x", P(layer, &groups),
          P(tape, tape), P(x, x));
    STOPS(tape, ls_batch_norm_layer_forward, "layer tape x", P(layer, &norm),
          P(tape, tape), P(x, x));
}

/* The tensor that an operation did not return tells why. */
static void shows_what_failed(ls_tape *tape, ls_tensor *x, ls_tensor *labels)
{
    const char *first = "matmul: ";
    double item;
    int64_t correct;
    ls_tensor *out = NULL;
    ls_tensor *logits = ls_relu(tape, ls_matmul(tape, x, x));
    assert_null(logits);
    assert_error(ls_count_correct(logits, labels, &correct), LS_ERR_SHAPE,
                 first);
    assert_error(ls_tensor_item(logits, &item), LS_ERR_SHAPE, first);
    assert_error(ls_tensor_copy(x, logits), LS_ERR_SHAPE, first);
    assert_error(ls_tensor_fill(logits, 1), LS_ERR_SHAPE, first);
    assert_error(ls_tensor_view(logits, 2, shape23, &out), LS_ERR_SHAPE, first);
    assert_error(ls_tape_watch(tape, x), LS_ERR_SHAPE, first);
    assert_error(ls_tape_status(tape), LS_ERR_SHAPE, first);
    assert_error(ls_backward(tape, logits, 1), LS_ERR_SHAPE, first);
    ls_tape_reset(tape);
    assert_error(ls_count_correct(NULL, labels, &correct), LS_ERR_ARGUMENT,
                 "logits is NULL");
}

void nulls_of_layers(void **state)
{
    ls_params *params = NULL;
    ls_tape *tape = NULL;
    ls_tensor *x = NULL, *labels = NULL;
    int64_t correct;
    (void)state;
    assert_ok(ls_params_new(&params));
    assert_ok(ls_tape_new(&tape));
    assert_ok(ls_tensor_zeros(&x, LS_F32, 2, shape23));
    assert_ok(ls_tensor_zeros(&labels, LS_I64, 1, two));
    nulls_of_making(params);
    nulls_of_forwards(tape, x);
    REFUSES(ls_count_correct, "logits labels correct", P(logits, x),
            P(labels, labels), P(correct, &correct));
    shows_what_failed(tape, x, labels);
    ls_tensor_free(&x);
    ls_tensor_free(&labels);
    ls_tape_free(&tape);
    ls_params_free(&params);
}

/* ---- transformers -------------------------------------------------------- */

static const ls_transformer_config tiny = {.kind = LS_TRANSFORMER_ROPE,
                                           .vocabulary = 4,
                                           .context = 4,
                                           .d_model = 4,
                                           .d_ff = 4,
                                           .layers = 1,
                                           .heads = 2};

static void nulls_of_model_files(ls_transformer *model)
{
    char path[] = "/tmp/lockstep-nulls-XXXXXX";
    ls_transformer_config config = LS_TRANSFORMER_CONFIG_INIT;
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    REFUSES(ls_transformer_save, "model path", P(model, model), P(path, path),
            NULL);
    TAKES(ls_transformer_save, "metadata", model, path, NULL);
    REFUSES(ls_transformer_load, "model path", P(model, model), P(path, path));
    REFUSES(ls_transformer_read_config, "path out", P(path, path),
            P(out, &config));
    unlink(path);
}

static void nulls_of_caches(ls_transformer *model, ls_tape *tape,
                            ls_tensor *tokens)
{
    ls_transformer_cache *cache = NULL, *none = NULL;
    REFUSES(ls_transformer_cache_new, "out model", P(out, &cache),
            P(model, model), 1, 0);
    assert_ok(ls_transformer_cache_new(&cache, model, 1, 0));
    ls_tape_set_training(tape, false);
    STOPS(tape, ls_transformer_extend, "model tape cache tokens",
          P(model, model), P(tape, tape), P(cache, cache), 0,
          P(tokens, tokens));
    ls_tape_set_training(tape, true);
    ls_transformer_cache_clear(none);
    ls_transformer_cache_free(&none);
    ls_transformer_cache_free(&cache);
}

void nulls_of_transformers(void **state)
{
    ls_transformer_config config = LS_TRANSFORMER_CONFIG_INIT;
    ls_params *params = NULL;
    ls_transformer *model = NULL, *none = NULL;
    ls_tape *tape = NULL;
    ls_tensor *tokens = NULL;
    (void)state;
    assert_ok(ls_params_new(&params));
    assert_ok(ls_tape_new(&tape));
    assert_ok(ls_tensor_zeros(&tokens, LS_I64, 2, (const int64_t[]){1, 2}));
    REFUSES(ls_transformer_size, "name out", P(name, "tiny"), P(out, &config));
    REFUSES(ls_transformer_new, "out params config", P(out, &model),
            P(params, params), P(config, &tiny));
    assert_ok(ls_transformer_new(&model, params, &tiny));
    assert_ok(ls_params_allocate(params, NULL, 1));
    STOPS(tape, ls_transformer_forward, "model tape tokens", P(model, model),
          P(tape, tape), P(tokens, tokens));
    nulls_of_caches(model, tape, tokens);
    ls_tape_fail(tape, LS_ERR_IO, "the first");
    assert_null(ls_transformer_forward(model, tape, tokens));
    assert_error(ls_tape_status(tape), LS_ERR_IO, "the first");
    nulls_of_model_files(model);
    ls_transformer_free(&none);
    ls_transformer_free(&model);
    ls_tensor_free(&tokens);
    ls_tape_free(&tape);
    ls_params_free(&params);
}

/* ---- networks for images ------------------------------------------------- */

void nulls_of_image_nets(void **state)
{
    const ls_image_net_options options = {
        .name = "vit", .classes = 2, .channels = 1, .height = 4, .width = 4};
    ls_image_net *net = NULL, *none = NULL;
    ls_group *group = NULL;
    ls_tape *tape = NULL;
    ls_tensor *x = NULL;
    (void)state;
    assert_ok(ls_group_open_threads(&group, 1));
    assert_ok(ls_tape_new(&tape));
    assert_ok(ls_tensor_zeros(&x, LS_F32, 4, (const int64_t[]){1, 1, 4, 4}));
    REFUSES(ls_image_net_new, "out group options", P(out, &net),
            P(group, group), P(options, &options));
    assert_ok(ls_image_net_new(&net, group, &options));
    assert_null(ls_image_net_params(none));
    STOPS(tape, ls_image_net_forward, "net tape images", P(net, net),
          P(tape, tape), P(images, x));
    ls_image_net_free(NULL);
    ls_image_net_free(&none);
    ls_image_net_free(&net);
    ls_tensor_free(&x);
    ls_tape_free(&tape);
    ls_group_close(&group);
}
