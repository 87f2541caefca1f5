/*
 * The content of published GPT-2 files, by their names and shapes and by
 * config.json next to them. The files here have whole headers and holes for
 * elements.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model/nn/transformer.h"
#include "testing.h"

enum { VOCABULARY = 50257, CONTEXT = 1024, HEADER_BYTES = 1 << 17 };

/* As published, with the numbers of parameters that go with them. */
static const struct size {
    const char *prefix;
    int64_t d_model, layers, heads;
    long long parameters;
} sizes[] = {
    {"", 768, 12, 12, 124439808},           {"", 1024, 24, 16, 354823168},
    {"", 1280, 36, 20, 774030080},          {"", 1600, 48, 25, 1557611200},
    {"transformer.", 768, 6, 12, 81912576}, /* distilgpt2 */
};

/* ---- files --------------------------------------------------------------- */

typedef struct sparse {
    char folder[40], path[64], config[64];
    char *header;
    size_t used;
    const char *prefix;
    int64_t end; /* of the elements */
} sparse;

static void add(sparse *s, const char *name, int64_t rows, int64_t columns)
{
    const int64_t begin = s->end;
    char shape[48];
    snprintf(shape, sizeof shape, columns > 0 ? "%lld,%lld" : "%lld",
             (long long)rows, (long long)columns);
    s->end += 4 * rows * (columns > 0 ? columns : 1);
    s->used += (size_t)snprintf(
        s->header + s->used, HEADER_BYTES - s->used,
        "%c\"%s%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":"
        "[%lld,%lld]}",
        s->used == 0 ? '{' : ',', s->prefix, name, shape, (long long)begin,
        (long long)s->end);
    assert_true(s->used < HEADER_BYTES);
}

static void add_layer(sparse *s, int64_t number, int64_t d, int64_t ff)
{
    const struct {
        const char *name;
        int64_t rows, columns;
    } parts[] = {
        {"ln_1.weight", d, 0},
        {"ln_1.bias", d, 0},
        {"attn.bias", 1, CONTEXT},
        {"attn.c_attn.weight", d, 3 * d},
        {"attn.c_attn.bias", 3 * d, 0},
        {"attn.c_proj.weight", d, d},
        {"attn.c_proj.bias", d, 0},
        {"ln_2.weight", d, 0},
        {"ln_2.bias", d, 0},
        {"mlp.c_fc.weight", d, ff},
        {"mlp.c_fc.bias", ff, 0},
        {"mlp.c_proj.weight", ff, d},
        {"mlp.c_proj.bias", d, 0},
    };
    for (size_t i = 0; i < TEST_COUNT(parts); i++) {
        char name[64];
        snprintf(name, sizeof name, "h.%lld.%s", (long long)number,
                 parts[i].name);
        add(s, name, parts[i].rows, parts[i].columns);
    }
}

static sparse begin(const char *prefix)
{
    sparse s = {.folder = "/tmp/lockstep-gpt2-XXXXXX", .prefix = prefix};
    assert_non_null(mkdtemp(s.folder));
    snprintf(s.path, sizeof s.path, "%s/model.safetensors", s.folder);
    snprintf(s.config, sizeof s.config, "%s/config.json", s.folder);
    s.header = malloc(HEADER_BYTES);
    assert_non_null(s.header);
    return s;
}

static void finish(sparse *s)
{
    s->header[s->used++] = '}';
    const uint64_t length = s->used;
    FILE *file = fopen(s->path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(&length, 1, sizeof length, file), sizeof length);
    assert_int_equal(fwrite(s->header, 1, s->used, file), s->used);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(truncate(s->path, 8 + (off_t)length + s->end), 0);
    free(s->header);
}

static void discard(const sparse *s)
{
    unlink(s->path);
    unlink(s->config);
    assert_int_equal(rmdir(s->folder), 0);
}

static sparse published(const struct size *size, int64_t ff)
{
    sparse s = begin(size->prefix);
    for (int64_t i = 0; i < size->layers; i++)
        add_layer(&s, i, size->d_model, ff);
    add(&s, "ln_f.weight", size->d_model, 0);
    add(&s, "ln_f.bias", size->d_model, 0);
    add(&s, "wpe.weight", CONTEXT, size->d_model);
    add(&s, "wte.weight", VOCABULARY, size->d_model);
    finish(&s);
    return s;
}

/* ---- tests --------------------------------------------------------------- */

static void expect_config(const ls_transformer_config *c,
                          const struct size *size, int64_t ff)
{
    assert_int_equal(c->kind, LS_TRANSFORMER_GPT2);
    assert_int_equal(c->vocabulary, VOCABULARY);
    assert_int_equal(c->context, CONTEXT);
    assert_int_equal(c->d_model, size->d_model);
    assert_int_equal(c->d_ff, ff);
    assert_int_equal(c->layers, size->layers);
    assert_int_equal(c->heads, size->heads);
}

static void expect_parameters(const ls_transformer_config *config,
                              long long parameters)
{
    ls_params *params = NULL;
    ls_transformer *model = NULL;
    assert_ok(ls_params_new(&params));
    assert_ok(ls_transformer_new(&model, params, config));
    assert_true(ls_params_numel(params) == parameters);
    ls_transformer_free(&model);
    ls_params_free(&params);
}

static void sizes_follow_from_shapes(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        ls_transformer_config config = LS_TRANSFORMER_CONFIG_INIT;
        const sparse s = published(&sizes[i], 4 * sizes[i].d_model);
        assert_ok(ls_transformer_read_config(s.path, &config));
        expect_config(&config, &sizes[i], 4 * sizes[i].d_model);
        expect_parameters(&config, sizes[i].parameters);
        discard(&s);
    }
}

static void other_inner_layers_are_read(void **state)
{
    (void)state;
    const struct size size = {"", 768, 3, 12, 0};
    ls_transformer_config config = LS_TRANSFORMER_CONFIG_INIT;
    const sparse s = published(&size, 100);
    assert_ok(ls_transformer_read_config(s.path, &config));
    expect_config(&config, &size, 100);
    discard(&s);
}

static void expect_refused(sparse s, const char *part)
{
    ls_transformer_config config = LS_TRANSFORMER_CONFIG_INIT;
    assert_error(ls_transformer_read_config(s.path, &config), LS_ERR_FORMAT,
                 part);
    discard(&s);
}

static void others_are_refused(void **state)
{
    (void)state;
    expect_refused(published(&(struct size){"", 96, 2, 0, 0}, 384),
                   "no published GPT-2 model has d_model 96. Put the model's "
                   "config.json next to the file, or set --heads");
    expect_refused(published(&(struct size){"", 128, 2, 0, 0}, 512),
                   "no published GPT-2 model has d_model 128");
    sparse s = begin("");
    add_layer(&s, 0, 64, 256);
    finish(&s);
    expect_refused(s, "but one of the matrices wte.weight");
    s = begin("");
    add(&s, "h.0.attn.c_attn.weight", 192, 64); /* of a checkpoint */
    add(&s, "wte.weight", 100, 64);
    finish(&s);
    expect_refused(s, "is not a known language model");
}

/* ---- config.json --------------------------------------------------------- */

static const struct size three_heads = {"transformer.", 96, 2, 3, 0};

static void put(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* A file of three heads of 32, with this config.json. */
static sparse with_config(const char *json)
{
    const sparse s = published(&three_heads, 384);
    put(s.config, json);
    return s;
}

#define COUNTS "'n_layer': 2, 'n_head': 3, 'n_embd': 96, 'vocab_size': 50257"
#define PLACES COUNTS ", 'n_positions': 1024"

/* Quotation marks that need no backslashes here. */
static const char *quoted(const char *text, char out[1024])
{
    snprintf(out, 1024, "%s", text);
    for (char *c = out; *c != '\0'; c++)
        *c = *c == '\'' ? '"' : *c;
    return out;
}

static void configurations_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        double eps;
    } good[] = {
        {"{" PLACES "}", 0},
        {"{" COUNTS ", 'n_ctx': 1024, 'n_inner': null}", 0},
        {"{" PLACES ", 'n_ctx': 7, 'n_inner': 384, 'layer_norm_epsilon': 1e-6,"
         " 'model_type': 'gpt2', 'activation_function': 'gelu_new',"
         " 'scale_attn_weights': true, 'add_cross_attention': false,"
         " 'scale_attn_by_inverse_layer_idx': false, 'pruned_heads': {},"
         " 'reorder_and_upcast_attn': true, 'quantization_config': null,"
         " 'tie_word_embeddings': true, 'attn_pdrop': 0.1}",
         1e-6},
    };
    char json[1024];
    for (size_t i = 0; i < TEST_COUNT(good); i++) {
        ls_transformer_config config = LS_TRANSFORMER_CONFIG_INIT;
        const sparse s = with_config(quoted(good[i].json, json));
        assert_ok(ls_transformer_read_config(s.path, &config));
        expect_config(&config, &three_heads, 384);
        assert_true(config.norm_eps == good[i].eps);
        assert_false(config.untied_head);
        discard(&s);
    }
}

static void expect_bad(const char *json, ls_status status, const char *part)
{
    ls_transformer_config config = LS_TRANSFORMER_CONFIG_INIT;
    char real_json[1024], real_part[1024];
    const sparse s = with_config(quoted(json, real_json));
    assert_error(ls_transformer_read_config(s.path, &config), status,
                 quoted(part, real_part));
    discard(&s);
}

static void what_there_is_not_is_refused(void **state)
{
    (void)state;
    static const char *const asked[] = {
        "'model_type': 'llama'",
        "'activation_function': 'gelu'",
        "'activation_function': 'relu'",
        "'scale_attn_weights': false",
        "'scale_attn_by_inverse_layer_idx': true",
        "'add_cross_attention': true",
        "'pruned_heads': {'1':[0]}",
        "'quantization_config': {'bits':4}",
    };
    for (size_t i = 0; i < TEST_COUNT(asked); i++) {
        char json[256], part[128];
        snprintf(json, sizeof json, "{" PLACES ", %s}", asked[i]);
        snprintf(part, sizeof part, " sets %s; only ", asked[i]);
        expect_bad(json, LS_ERR_UNSUPPORTED, part);
    }
}

static void wrong_configurations_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *json, *part;
    } bad[] = {
        {"", "is not valid JSON: line 1"},
        {"{\n'n_head': 3", "is not valid JSON: line 2"},
        {"{'n_head': 3, 'n_head': 4}", "duplicate object key"},
        {"[3]", "is not a JSON object"},
        {"{}", "'n_layer' is missing; it should be a whole number above 0"},
        {"{'n_layer': '2'}", "'n_layer' is '2'; it should be"},
        {"{'n_layer': 2.5}", "'n_layer' is 2.5; it should be"},
        {"{'n_layer': -2}", "'n_layer' is -2; it should be"},
        {"{" COUNTS "}", "'n_positions' is missing"},
        {"{" COUNTS ", 'n_ctx': 512}",
         "sets 'n_positions': 512, but the shapes of the tensors give 1024"},
        {"{" PLACES ", 'n_inner': 400}",
         "sets 'n_inner': 400, but the shapes of the tensors give 384"},
        {"{'n_layer': 3, 'n_head': 3, 'n_embd': 96, 'n_ctx': 1024,"
         " 'vocab_size': 50257}",
         "sets 'n_layer': 3, but the shapes of the tensors give 2"},
        {"{" PLACES ", 'layer_norm_epsilon': 0}",
         "'layer_norm_epsilon' is 0; it should be a number between 0 and 1"},
        {"{" PLACES ", 'layer_norm_epsilon': '1e-5'}",
         "'layer_norm_epsilon' is '1e-5'"},
        {"{" PLACES ", 'tie_word_embeddings': 1}",
         "'tie_word_embeddings' is 1; it should be true or false"},
        {"{" PLACES ", 'tie_word_embeddings': false}",
         "has no lm_head.weight, but config.json next to it sets"},
    };
    for (size_t i = 0; i < TEST_COUNT(bad); i++)
        expect_bad(bad[i].json, LS_ERR_FORMAT, bad[i].part);
    expect_bad("{'n_layer': 2, 'n_head': 5, 'n_embd': 96, 'n_ctx': 1024, "
               "'vocab_size': 50257}",
               LS_ERR_ARGUMENT, "heads is 5; it must divide d_model, 96");
}

/* Nobody waits for a pipe, or reads a device without end. */
static void other_files_are_refused(void **state)
{
    (void)state;
    ls_transformer_config config = LS_TRANSFORMER_CONFIG_INIT;
    const sparse s = published(&three_heads, 384);
    assert_int_equal(mkfifo(s.config, 0600), 0);
    assert_error(ls_transformer_read_config(s.path, &config), LS_ERR_FORMAT,
                 "config.json' is not a configuration");
    unlink(s.config);
    assert_int_equal(symlink("/dev/zero", s.config), 0);
    assert_error(ls_transformer_read_config(s.path, &config), LS_ERR_FORMAT,
                 "config.json' is not a configuration");
    unlink(s.config);
    assert_int_equal(mkdir(s.config, 0700), 0);
    assert_error(ls_transformer_read_config(s.path, &config), LS_ERR_FORMAT,
                 "config.json' is not a configuration");
    rmdir(s.config);
    discard(&s);
}

static sparse with_head(const char *text)
{
    char json[1024];
    sparse s = begin("transformer.");
    for (int64_t i = 0; i < 2; i++)
        add_layer(&s, i, 96, 384);
    add(&s, "wpe.weight", CONTEXT, 96);
    add(&s, "wte.weight", VOCABULARY, 96);
    s.prefix = "";
    add(&s, "lm_head.weight", VOCABULARY, 96);
    finish(&s);
    put(s.config, quoted(text, json));
    return s;
}

/* Writes to the last element of the last tensor, the head. */
static void change_head(const sparse *s)
{
    FILE *file = fopen(s->path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, -1, SEEK_END), 0);
    assert_int_equal(fputc(1, file), 1);
    assert_int_equal(fclose(file), 0);
}

static void heads_of_their_own_are_read(void **state)
{
    (void)state;
    ls_transformer_config config = LS_TRANSFORMER_CONFIG_INIT;
    sparse s = with_head("{" PLACES "}");
    assert_ok(ls_transformer_read_config(s.path, &config));
    assert_false(config.untied_head); /* all zeros, as the embedding */
    change_head(&s);
    assert_error(ls_transformer_read_config(s.path, &config), LS_ERR_FORMAT,
                 "does not set \"tie_word_embeddings\": false");
    unlink(s.config);
    assert_ok(lsi_transformer_read_config(s.path, 3, &config));
    assert_true(config.untied_head);
    assert_int_equal(config.heads, 3);
    discard(&s);
    s = with_head("{" PLACES ", 'tie_word_embeddings': false}");
    assert_ok(lsi_transformer_read_config(s.path, 3, &config));
    assert_true(config.untied_head);
    assert_error(lsi_transformer_read_config(s.path, 2, &config),
                 LS_ERR_ARGUMENT,
                 "has 3 attention heads, but 2 heads were requested");
    discard(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_follow_from_shapes),
        cmocka_unit_test(other_inner_layers_are_read),
        cmocka_unit_test(others_are_refused),
        cmocka_unit_test(configurations_are_read),
        cmocka_unit_test(what_there_is_not_is_refused),
        cmocka_unit_test(wrong_configurations_are_refused),
        cmocka_unit_test(other_files_are_refused),
        cmocka_unit_test(heads_of_their_own_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
