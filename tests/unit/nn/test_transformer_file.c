/* Transformers as files: what is written comes back, what differs is refused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "little.h"

static ls_transformer_config of_kind(ls_transformer_kind kind)
{
    ls_transformer_config config = little;
    config.kind = kind;
    return config;
}

typedef struct path {
    char text[64];
} path;

static path new_path(void)
{
    path p = {"/tmp/lockstep-transformer-XXXXXX"};
    const int fd = mkstemp(p.text);
    assert_true(fd >= 0);
    close(fd);
    return p;
}

static void expect_same_parameters(const network *a, const network *b)
{
    for (size_t i = 0; i < ls_params_count(a->params); i++) {
        ls_tensor *x = ls_params_get(a->params, i);
        ls_tensor *y = ls_params_get(b->params, i);
        assert_memory_equal(tensor_data(x), tensor_data(y),
                            (size_t)ls_tensor_count(x) * sizeof(float));
    }
}

static void expect_same_config(const ls_transformer_config *a,
                               const ls_transformer_config *b)
{
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->vocabulary, b->vocabulary);
    assert_int_equal(a->context, b->context);
    assert_int_equal(a->d_model, b->d_model);
    assert_int_equal(a->d_ff, b->d_ff);
    assert_int_equal(a->layers, b->layers);
    assert_int_equal(a->heads, b->heads);
    assert_true(a->rope_theta == b->rope_theta);
    assert_int_equal(a->rope_halves, b->rope_halves);
    assert_true(a->norm_eps == b->norm_eps);
    assert_int_equal(a->untied_head, b->untied_head);
}

static void files_bring_models_back(void **state)
{
    (void)state;
    const path file = new_path();
    for (int i = 0; i < 2 * LS_TRANSFORMER_KIND_COUNT; i++) {
        ls_transformer_config config = of_kind((ls_transformer_kind)(i / 2));
        config.rope_theta = 500;
        config.rope_halves = true;
        config.norm_eps = i % 2 == 0 ? 0 : 1e-6;
        config.untied_head = i % 2 == 1;
        network net = open_network(&config, 4);
        static const char *const metadata[] = {"steps", "12", NULL};
        assert_ok(ls_transformer_save(net.model, file.text, metadata));
        ls_transformer_config read = LS_TRANSFORMER_CONFIG_INIT;
        assert_ok(ls_transformer_read_config(file.text, &read));
        expect_same_config(&read, &config);
        network other = open_network(&read, 5);
        assert_ok(ls_transformer_load(other.model, file.text));
        expect_same_parameters(&net, &other);
        close_network(&net);
        close_network(&other);
    }
    unlink(file.text);
}

/* The file has the value that 0 stands for, for other programs that read it. */
static void files_name_the_angle_in_use(void **state)
{
    (void)state;
    const path file = new_path();
    for (int i = 0; i < LS_TRANSFORMER_KIND_COUNT; i++) {
        ls_transformer_config config = of_kind((ls_transformer_kind)i);
        ls_transformer_config read = LS_TRANSFORMER_CONFIG_INIT;
        config.rope_theta = 0;
        network net = open_network(&config, 4);
        assert_ok(ls_transformer_save(net.model, file.text, NULL));
        assert_ok(ls_transformer_read_config(file.text, &read));
        assert_true(read.rope_theta ==
                    (config.kind == LS_TRANSFORMER_GPT2 ? 0 : 10000));
        assert_ok(ls_transformer_load(net.model, file.text));
        close_network(&net);
    }
    unlink(file.text);
}

/* A file that was written before there were norm_eps and untied_head. */
static void older_files_are_read(void **state)
{
    (void)state;
    const path file = new_path();
    network net = open_network(&little, 4), other = open_network(&little, 5);
    ls_named_tensor tensors[32];
    const size_t n = ls_params_count(net.params);
    static const char *const metadata[] = {
        "transformer",
        "{\"kind\":\"rope\",\"vocabulary\":11,\"context\":6,\"d_model\":8,"
        "\"d_ff\":12,\"layers\":2,\"heads\":2,\"rope_theta\":0.0,"
        "\"rope_halves\":false}",
        NULL};
    ls_transformer_config read = LS_TRANSFORMER_CONFIG_INIT;
    for (size_t i = 0; i < n; i++)
        tensors[i] = (ls_named_tensor){ls_params_name(net.params, i),
                                       ls_params_get(net.params, i)};
    assert_ok(ls_safetensors_save(file.text, tensors, n, metadata));
    assert_ok(ls_transformer_read_config(file.text, &read));
    expect_same_config(&read, &little);
    assert_ok(ls_transformer_load(other.model, file.text));
    expect_same_parameters(&net, &other);
    close_network(&net);
    close_network(&other);
    unlink(file.text);
}

static void expect_differs(const path *file, ls_transformer_config config,
                           const char *part)
{
    network net = open_network(&config, 4);
    assert_error(ls_transformer_load(net.model, file->text), LS_ERR_FORMAT,
                 part);
    close_network(&net);
}

/* Tensors of the same shapes, but not the same model. */
static void other_models_are_refused(void **state)
{
    (void)state;
    const path file = new_path();
    ls_transformer_config config = of_kind(LS_TRANSFORMER_GPT2);
    config.norm_eps = 1e-5; /* what 0 means */
    network net = open_network(&config, 4);
    assert_ok(ls_transformer_save(net.model, file.text, NULL));
    config = of_kind(LS_TRANSFORMER_GPT2);
    network same = open_network(&config, 5);
    assert_ok(ls_transformer_load(same.model, file.text));
    close_network(&same);
    config.heads = 4;
    expect_differs(&file, config, "holds a model with heads: 2, expected 4");
    config.heads = 2;
    config.norm_eps = 1e-6;
    expect_differs(&file, config,
                   "holds a model with norm_eps 1e-05, expected 1e-06");
    close_network(&net);
    net = open_network(&little, 4);
    assert_ok(ls_transformer_save(net.model, file.text, NULL));
    config = little;
    config.rope_theta = 500;
    expect_differs(&file, config,
                   "holds a model with rope_theta 10000, expected 500");
    config = little;
    config.rope_halves = true;
    expect_differs(&file, config,
                   "holds a model with rope_halves 0, expected 1");
    close_network(&net);
    unlink(file.text);
}

/* As published: the matrices of products are (in, out). */
static void gpt2_files_are_transposed(void **state)
{
    (void)state;
    const path file = new_path();
    const ls_transformer_config config = of_kind(LS_TRANSFORMER_GPT2);
    network net = open_network(&config, 4);
    ls_tensor *stored = NULL;
    assert_ok(ls_transformer_save(net.model, file.text, NULL));
    assert_ok(ls_tensor_new(&stored, LS_F32, 2, (const int64_t[]){8, 24}));
    const ls_named_tensor wanted = {"h.1.attn.c_attn.weight", stored};
    assert_ok(ls_safetensors_load(file.text, &wanted, 1));
    size_t i = 0;
    while (strcmp(ls_params_name(net.params, i), wanted.name) != 0)
        i++;
    const float *memory = tensor_data(ls_params_get(net.params, i));
    const float *got = tensor_data(stored);
    for (int in = 0; in < 8; in++)
        for (int out = 0; out < 24; out++)
            assert_true(got[in * 24 + out] == memory[out * 8 + in]);
    ls_tensor_free(&stored);
    close_network(&net);
    unlink(file.text);
}

/* ---- sets with other parameters ------------------------------------------ */

/* Longer than any name of a model, and alike in the first 100 bytes. */
#define LONG_NAME                                                              \
    "adapter.adapter.adapter.adapter.adapter.adapter.adapter.adapter."         \
    "adapter.adapter.adapter.adapter.adapter."

/* A model between two parameters of the caller's, which have three axes. */
static network open_with_others(const ls_transformer_config *config,
                                uint64_t seed)
{
    const int64_t shape[] = {2, 3, 4};
    const ls_init ones = {LS_INIT_CONSTANT, 1, 0};
    network net = {0};
    assert_ok(ls_params_new(&net.params));
    assert_ok(ls_params_add(net.params, LONG_NAME "a", 3, shape, ones, NULL));
    assert_ok(ls_transformer_new(&net.model, net.params, config));
    assert_ok(ls_params_add(net.params, LONG_NAME "b", 3, shape, ones, NULL));
    assert_ok(ls_params_allocate(net.params, NULL, seed));
    return net;
}

static void files_hold_the_model_alone(void **state)
{
    (void)state;
    const path file = new_path();
    for (int i = 0; i < LS_TRANSFORMER_KIND_COUNT; i++) {
        const ls_transformer_config config = of_kind((ls_transformer_kind)i);
        network net = open_with_others(&config, 4);
        network alone = open_network(&config, 5);
        network back = open_with_others(&config, 6);
        ls_safetensors *stored = NULL;
        assert_ok(ls_transformer_save(net.model, file.text, NULL));
        assert_ok(ls_safetensors_open(&stored, file.text));
        assert_int_equal(ls_safetensors_count(stored),
                         ls_params_count(alone.params));
        ls_safetensors_close(&stored);
        assert_ok(ls_transformer_load(back.model, file.text));
        expect_same_parameters(&net, &back);
        close_network(&back);
        close_network(&alone);
        close_network(&net);
    }
    unlink(file.text);
}

static void wrong_files_are_refused(void **state)
{
    (void)state;
    const path file = new_path();
    ls_transformer_config config = little;
    network net = open_network(&config, 4);
    assert_ok(ls_transformer_save(net.model, file.text, NULL));
    config.d_ff = 13;
    network other = open_network(&config, 4);
    assert_error(ls_transformer_load(other.model, file.text), LS_ERR_SHAPE,
                 "tensor 'layers.0.ffn.w1.weight' has shape (12, 8), expected "
                 "(13, 8)");
    close_network(&other);
    config.layers = 3;
    config.d_ff = 12;
    other = open_network(&config, 4);
    assert_error(ls_transformer_load(other.model, file.text), LS_ERR_FORMAT,
                 "no tensor 'layers.2.attn.q_proj.weight'");
    close_network(&other);
    const ls_named_tensor one = {"x", ls_params_get(net.params, 0)};
    assert_ok(ls_safetensors_save(file.text, &one, 1, NULL));
    assert_error(ls_transformer_read_config(file.text, &config), LS_ERR_FORMAT,
                 "is not a known language model");
    close_network(&net);
    unlink(file.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_bring_models_back),
        cmocka_unit_test(files_name_the_angle_in_use),
        cmocka_unit_test(older_files_are_read),
        cmocka_unit_test(other_models_are_refused),
        cmocka_unit_test(gpt2_files_are_transposed),
        cmocka_unit_test(files_hold_the_model_alone),
        cmocka_unit_test(wrong_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
