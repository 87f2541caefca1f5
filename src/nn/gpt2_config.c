/*
 * config.json of GPT-2 models, as Hugging Face's transformers write it beside
 * the weights. What it leaves out has the value that they take then.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "nn/transformer.h"

enum { PATH_BYTES = 4096, VALUE_BYTES = 64, MOST_BYTES = 1 << 20 };

static const char name[] = "config.json";

/* ---- the file ------------------------------------------------------------ */

static ls_status place_of(const char *weights, char path[PATH_BYTES])
{
    const char *slash = strrchr(weights, '/');
    const int folder = slash != NULL ? (int)(slash + 1 - weights) : 0;
    if (snprintf(path, PATH_BYTES, "%.*s%s", folder, weights, name) <
        PATH_BYTES)
        return LS_OK;
    return lsi_fail(LS_ERR_ARGUMENT, "the path of '%s' is too long", weights);
}

static ls_status parse(const char *path, const char *text, size_t bytes,
                       json_t **out)
{
    json_error_t error;
    const ls_status status =
        lsi_json_loadb(text, bytes, JSON_REJECT_DUPLICATES, out, &error);
    if (status == LS_ERR_FORMAT)
        return lsi_fail(LS_ERR_FORMAT, "'%s' is not valid JSON: line %d: %s",
                        path, error.line, error.text);
    LS_TRY(status);
    if (json_is_object(*out))
        return LS_OK;
    json_decref(*out);
    return lsi_fail(LS_ERR_FORMAT, "'%s' is not a JSON object", path);
}

static ls_status read_open(int fd, const char *path, json_t **out)
{
    struct stat info;
    void *text = NULL;
    if (fstat(fd, &info) != 0)
        return lsi_fail_errno(LS_ERR_IO, "cannot read '%s'", path);
    if (!S_ISREG(info.st_mode) || info.st_size > MOST_BYTES)
        return lsi_fail(
            LS_ERR_FORMAT,
            "'%s' is not a configuration: it should be a file of at "
            "most %d bytes",
            path, (int)MOST_BYTES);
    const size_t bytes = (size_t)info.st_size;
    LS_TRY(lsi_alloc(&text, bytes, LS_MEMORY_OTHER, "a configuration"));
    size_t got;
    ls_status status = lsi_read_up_to(fd, path, text, bytes, &got);
    if (status == LS_OK && got < bytes)
        status =
            lsi_fail(LS_ERR_IO, "'%s' became shorter while it was read", path);
    if (status == LS_OK)
        status = parse(path, text, bytes, out);
    lsi_free(text);
    return status;
}

/* *out is NULL if there is no such file. */
static ls_status read_file(const char *path, json_t **out)
{
    /* Without O_NONBLOCK a pipe of that name would wait for a writer. */
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    *out = NULL;
    if (fd < 0 && errno == ENOENT)
        return LS_OK;
    if (fd < 0)
        return lsi_fail_errno(LS_ERR_IO, "cannot open '%s'", path);
    const ls_status status = read_open(fd, path, out);
    close(fd);
    return status;
}

/* ---- what it says -------------------------------------------------------- */

/* A value as it stands in the file, cut to fit. */
static const char *value_text(const json_t *value, char text[VALUE_BYTES])
{
    char *dump = lsi_json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    snprintf(text, VALUE_BYTES, "%s", dump != NULL ? dump : "");
    free(dump);
    return text;
}

/* null is as good as nothing. */
static const json_t *get(const json_t *json, const char *key)
{
    const json_t *value = json_object_get(json, key);
    return json_is_null(value) ? NULL : value;
}

/* What a model must be like, of which there is one kind; `other` is the same
 * by another word. */
static const struct {
    const char *key, *wanted, *other;
} supported[] = {
    {"model_type", "\"gpt2\"", NULL},
    {"activation_function", "\"gelu_new\"", "\"gelu_pytorch_tanh\""},
    {"scale_attn_weights", "true", NULL},
    {"scale_attn_by_inverse_layer_idx", "false", NULL},
    {"add_cross_attention", "false", NULL},
    {"pruned_heads", "{}", NULL},
    {"quantization_config", "null", NULL},
};

static ls_status check_supported(const char *path, const json_t *json)
{
    char text[VALUE_BYTES];
    for (size_t i = 0; i < sizeof supported / sizeof supported[0]; i++) {
        const json_t *value = get(json, supported[i].key);
        if (value == NULL)
            continue;
        value_text(value, text);
        if (strcmp(text, supported[i].wanted) == 0 ||
            (supported[i].other != NULL &&
             strcmp(text, supported[i].other) == 0))
            continue;
        return lsi_fail(LS_ERR_UNSUPPORTED,
                        "'%s' asks for \"%s\": %s; only %s is supported", path,
                        supported[i].key, text, supported[i].wanted);
    }
    return LS_OK;
}

static const struct {
    const char *key, *older; /* the older name, or NULL */
    size_t place;
    bool needed;
} counts[] = {
    {"n_layer", NULL, offsetof(lsi_gpt2_json, layers), true},
    {"n_head", NULL, offsetof(lsi_gpt2_json, heads), true},
    {"n_embd", NULL, offsetof(lsi_gpt2_json, d_model), true},
    {"n_inner", NULL, offsetof(lsi_gpt2_json, d_ff), false},
    {"n_positions", "n_ctx", offsetof(lsi_gpt2_json, context), true},
    {"vocab_size", NULL, offsetof(lsi_gpt2_json, vocabulary), true},
};

static ls_status wrong(const char *path, const char *key, const json_t *value,
                       const char *wanted)
{
    char text[VALUE_BYTES] = "missing";
    if (value != NULL)
        value_text(value, text);
    return lsi_fail(LS_ERR_FORMAT, "'%s': \"%s\" is %s; it should be %s", path,
                    key, text, wanted);
}

static ls_status read_counts(const char *path, const json_t *json,
                             lsi_gpt2_json *out)
{
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        const json_t *value = get(json, counts[i].key);
        if (value == NULL && counts[i].older != NULL)
            value = get(json, counts[i].older);
        if (value == NULL && !counts[i].needed)
            continue;
        if (json_integer_value(value) < 1)
            return wrong(path, counts[i].key, value, "a whole number above 0");
        *(int64_t *)(void *)((char *)out + counts[i].place) =
            json_integer_value(value);
    }
    return LS_OK;
}

static ls_status read_rest(const char *path, const json_t *json,
                           lsi_gpt2_json *out)
{
    const json_t *eps = get(json, "layer_norm_epsilon");
    const json_t *tied = get(json, "tie_word_embeddings");
    if (eps != NULL)
        out->norm_eps = json_number_value(eps);
    if (eps != NULL && !(out->norm_eps > 0.0 && out->norm_eps < 1.0))
        return wrong(path, "layer_norm_epsilon", eps,
                     "a number between 0 and 1");
    if (tied != NULL && !json_is_boolean(tied))
        return wrong(path, "tie_word_embeddings", tied, "true or false");
    out->untied_head = json_is_false(tied);
    return LS_OK;
}

ls_status lsi_gpt2_read_json(const char *path, lsi_gpt2_json *out)
{
    char place[PATH_BYTES];
    json_t *json = NULL;
    *out = (lsi_gpt2_json){0};
    LS_TRY(place_of(path, place));
    LS_TRY(read_file(place, &json));
    if (json == NULL)
        return LS_OK;
    out->found = true;
    ls_status status = check_supported(place, json);
    if (status == LS_OK)
        status = read_counts(place, json, out);
    if (status == LS_OK)
        status = read_rest(place, json, out);
    json_decref(json);
    return status;
}
