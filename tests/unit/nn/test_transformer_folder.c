/*
 * Folders as Hugging Face's transformers have them: what is written comes back
 * to the same bits, and config.json says the same as the metadata.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "little.h"
#include "model/nn/transformer.h"

/* ---- a folder ------------------------------------------------------------ */

typedef struct folder {
    char text[40];
    char weights[64], config[64];
} folder;

static folder new_folder(void)
{
    folder f = {.text = "/tmp/lockstep-folder-XXXXXX"};
    assert_non_null(mkdtemp(f.text));
    snprintf(f.weights, sizeof f.weights, "%s/model.safetensors", f.text);
    snprintf(f.config, sizeof f.config, "%s/config.json", f.text);
    return f;
}

static void remove_folder(const folder *f)
{
    unlink(f->weights);
    unlink(f->config);
    assert_int_equal(rmdir(f->text), 0);
}

static void save(const folder *f, const network *net)
{
    static const char *const metadata[] = {"steps", "12", NULL};
    assert_ok(
        lsi_transformer_save_published(net->model, f->weights, -1, metadata));
}

/* ---- comparing ----------------------------------------------------------- */

static void expect_same_parameters(const network *a, const network *b)
{
    for (size_t i = 0; i < ls_params_count(a->params); i++) {
        ls_tensor *x = ls_params_get(a->params, i);
        ls_tensor *y = ls_params_get(b->params, i);
        assert_memory_equal(tensor_data(x), tensor_data(y),
                            (size_t)ls_tensor_count(x) * sizeof(float));
    }
}

static void expect_comes_back(const ls_transformer_config *config)
{
    const folder f = new_folder();
    ls_transformer_config read = LS_TRANSFORMER_CONFIG_INIT;
    network net = open_network(config, 4);
    save(&f, &net);
    assert_ok(ls_transformer_read_config(f.text, &read));
    assert_int_equal(read.kind, config->kind);
    network other = open_network(&read, 5);
    assert_ok(ls_transformer_load(other.model, f.text));
    expect_same_parameters(&net, &other);
    close_network(&other);
    close_network(&net);
    remove_folder(&f);
}

/* ---- tests --------------------------------------------------------------- */

static void gpt2_comes_back(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        ls_transformer_config config = little;
        config.kind = LS_TRANSFORMER_GPT2;
        config.untied_head = i == 1;
        expect_comes_back(&config);
    }
}

static void llama_comes_back(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        ls_transformer_config config = little;
        config.kind = LS_TRANSFORMER_LLAMA;
        config.untied_head = i % 2 == 1;
        config.kv_heads = i / 2;
        config.d_head = i == 3 ? 6 : 0;
        expect_comes_back(&config);
    }
}

/* Pairs of both kinds, fewer keys than queries, a head that is wider. */
static void rope_comes_back(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        ls_transformer_config config = little;
        config.rope_halves = i % 2 == 1;
        config.kv_heads = i / 2;
        config.d_head = i == 3 ? 6 : 0;
        expect_comes_back(&config);
    }
}

static void gpt2_configuration(void **state)
{
    (void)state;
    const folder f = new_folder();
    ls_transformer_config config = little;
    config.kind = LS_TRANSFORMER_GPT2;
    config.norm_eps = 1e-3;
    config.untied_head = true;
    network net = open_network(&config, 4);
    lsi_gpt2_json json;
    save(&f, &net);
    assert_ok(lsi_gpt2_read_json(f.weights, &json));
    assert_true(json.found && json.untied_head && json.norm_eps == 1e-3);
    assert_int_equal(json.layers, 2);
    assert_int_equal(json.heads, 2);
    assert_int_equal(json.d_model, 8);
    assert_int_equal(json.d_ff, 12);
    assert_int_equal(json.context, 6);
    assert_int_equal(json.vocabulary, 11);
    close_network(&net);
    remove_folder(&f);
}

/* Numbers that 0 stands for are written out. */
static void expect_llama_json(const folder *f,
                              const ls_transformer_config *config)
{
    bool found = false;
    ls_transformer_config json;
    assert_ok(lsi_llama_read_json(f->weights, &json, &found));
    assert_true(found);
    assert_int_equal(json.vocabulary, config->vocabulary);
    assert_int_equal(json.context, config->context);
    assert_int_equal(json.d_model, config->d_model);
    assert_int_equal(json.d_ff, config->d_ff);
    assert_int_equal(json.layers, config->layers);
    assert_int_equal(json.heads, config->heads);
    assert_int_equal(json.kv_heads, lsi_transformer_kv_heads(config));
    assert_int_equal(json.d_head, lsi_transformer_d_head(config));
    assert_true(json.norm_eps == lsi_transformer_eps(config));
    assert_true(json.rope_theta == lsi_transformer_theta(config));
    assert_memory_equal(&json.rope_scaling, &config->rope_scaling,
                        sizeof(ls_rope_scaling));
    assert_int_equal(json.untied_head, config->untied_head);
}

static void llama_configuration(void **state)
{
    (void)state;
    static const ls_rope_scaling scalings[] = {
        {.kind = LS_ROPE_SCALING_NONE},
        {.kind = LS_ROPE_SCALING_LINEAR, .factor = 2.5},
        {LS_ROPE_SCALING_LLAMA3, 8.0, 1.0, 4.0, 16}};
    const folder f = new_folder();
    for (int i = 0; i < 3; i++) {
        ls_transformer_config config = little;
        config.kind = LS_TRANSFORMER_LLAMA;
        config.kv_heads = i == 1 ? 1 : 0;
        config.norm_eps = i == 1 ? 1e-6 : 0;
        config.rope_theta = i == 2 ? 500000 : 0;
        config.untied_head = i == 2;
        config.rope_scaling = scalings[i];
        network net = open_network(&config, 4);
        save(&f, &net);
        expect_llama_json(&f, &config);
        close_network(&net);
    }
    remove_folder(&f);
}

/* ---- rope as a Llama model ----------------------------------------------- */

enum { LENGTH = 6 };

static ls_tensor *logits(const network *net, ls_tape *tape)
{
    ls_tensor *tokens = NULL;
    assert_ok(ls_tensor_new(&tokens, LS_I64, 2, (const int64_t[]){1, LENGTH}));
    for (int t = 0; t < LENGTH; t++)
        ((int64_t *)tensor_data(tokens))[t] = (5 * t + 2) % 11;
    ls_tensor *const out = ls_transformer_forward(net->model, tape, tokens);
    ls_tensor_free(&tokens);
    assert_ok(ls_tape_status(tape));
    return out;
}

/* About ten sums in a row of 12 terms at most, in another order. */
static void expect_same_logits(const network *a, const network *b)
{
    ls_tape *tape = NULL;
    double largest = 0;
    assert_ok(ls_tape_new(&tape));
    const float *const x = tensor_data(logits(a, tape));
    const float *const y = tensor_data(logits(b, tape));
    for (int i = 0; i < LENGTH * 11; i++)
        largest = fmax(largest, fabs((double)x[i]));
    assert_true(largest > 0.1);
    for (int i = 0; i < LENGTH * 11; i++)
        assert_true(fabs((double)x[i] - (double)y[i]) <=
                    120 * 0x1p-24 * largest);
    ls_tape_free(&tape);
}

static void rope_is_a_llama_model(void **state)
{
    (void)state;
    const folder f = new_folder();
    for (int i = 0; i < 4; i++) {
        ls_transformer_config config = little, json;
        bool found = false;
        config.rope_halves = i % 2 == 1;
        config.kv_heads = i / 2;
        config.rope_theta = 50;
        network net = open_network(&config, 4);
        save(&f, &net);
        config.untied_head = true;
        expect_llama_json(&f, &config);
        assert_ok(lsi_llama_read_json(f.weights, &json, &found));
        network llama = open_network(&json, 5);
        assert_ok(ls_transformer_load(llama.model, f.text));
        expect_same_logits(&net, &llama);
        close_network(&llama);
        close_network(&net);
    }
    remove_folder(&f);
}

/* A teacher and its student, say: more parameters than a ROPE model has. */
static void one_of_two_models_comes_back(void **state)
{
    (void)state;
    const folder f = new_folder();
    ls_transformer_config config = little;
    network net = open_network(&little, 4), two = {0};
    ls_transformer *teacher = NULL;
    save(&f, &net);
    config.kind = LS_TRANSFORMER_GPT2;
    config.layers = 5;
    assert_ok(ls_params_new(&two.params));
    assert_ok(ls_transformer_new(&two.model, two.params, &little));
    assert_ok(ls_transformer_new(&teacher, two.params, &config));
    assert_ok(ls_params_allocate(two.params, NULL, 5));
    assert_ok(ls_transformer_load(two.model, f.text));
    expect_same_parameters(&net, &two);
    save(&f, &two);
    assert_ok(ls_transformer_load(net.model, f.text));
    expect_same_parameters(&net, &two);
    ls_transformer_free(&teacher);
    close_network(&two);
    close_network(&net);
    remove_folder(&f);
}

/* By Llama's names, and in its layout, but with other angles. */
static void other_models_are_refused(void **state)
{
    (void)state;
    const folder f = new_folder();
    ls_transformer_config config = little;
    network net = open_network(&config, 4);
    save(&f, &net);
    config.rope_theta = 50;
    network other = open_network(&config, 5);
    assert_error(ls_transformer_load(other.model, f.text), LS_ERR_FORMAT,
                 "holds a model with rope_theta 10000, expected 50");
    close_network(&other);
    config.kind = LS_TRANSFORMER_LLAMA;
    other = open_network(&config, 5);
    assert_error(ls_transformer_load(other.model, f.text), LS_ERR_FORMAT,
                 "holds a model with rope_theta 10000, expected 50");
    close_network(&other);
    config = little;
    config.kind = LS_TRANSFORMER_LLAMA;
    config.untied_head = true;
    network llama = open_network(&config, 5);
    save(&f, &llama);
    assert_error(ls_transformer_load(net.model, f.text), LS_ERR_FORMAT,
                 "has no tensor 'token_embeddings.weight'");
    close_network(&llama);
    close_network(&net);
    remove_folder(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt2_comes_back),
        cmocka_unit_test(llama_comes_back),
        cmocka_unit_test(rope_comes_back),
        cmocka_unit_test(gpt2_configuration),
        cmocka_unit_test(llama_configuration),
        cmocka_unit_test(rope_is_a_llama_model),
        cmocka_unit_test(one_of_two_models_comes_back),
        cmocka_unit_test(other_models_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
