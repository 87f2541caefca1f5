/*
 * What published GPT-2 files hold, by their names and shapes. The files here
 * have whole headers and holes for elements.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lockstep/transformer.h"
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
    char path[48];
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
    sparse s = {.path = "/tmp/lockstep-gpt2-sizes-XXXXXX", .prefix = prefix};
    const int fd = mkstemp(s.path);
    assert_true(fd >= 0);
    close(fd);
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
        ls_transformer_config config;
        const sparse s = published(&sizes[i], 4 * sizes[i].d_model);
        assert_ok(ls_transformer_read_config(s.path, &config));
        expect_config(&config, &sizes[i], 4 * sizes[i].d_model);
        expect_parameters(&config, sizes[i].parameters);
        unlink(s.path);
    }
}

static void other_inner_layers_are_read(void **state)
{
    (void)state;
    const struct size size = {"", 128, 3, 2, 0};
    ls_transformer_config config;
    const sparse s = published(&size, 100);
    assert_ok(ls_transformer_read_config(s.path, &config));
    expect_config(&config, &size, 100);
    unlink(s.path);
}

static void expect_refused(sparse s, const char *part)
{
    ls_transformer_config config;
    assert_error(ls_transformer_read_config(s.path, &config), LS_ERR_FORMAT,
                 part);
    unlink(s.path);
}

static void others_are_refused(void **state)
{
    (void)state;
    expect_refused(published(&(struct size){"", 96, 2, 0, 0}, 384),
                   "its d_model, 96, is no multiple of 64");
    sparse s = begin("");
    add_layer(&s, 0, 64, 256);
    finish(&s);
    expect_refused(s, "but not the matrices wte.weight, wpe.weight");
    s = begin("");
    add(&s, "h.0.attn.c_attn.weight", 192, 64); /* of a checkpoint */
    add(&s, "wte.weight", 100, 64);
    finish(&s);
    expect_refused(s, "does not say which transformer it holds");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_follow_from_shapes),
        cmocka_unit_test(other_inner_layers_are_read),
        cmocka_unit_test(others_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
