/* config.json next to weights; see model_json.h. */
#include "model/nn/model_json.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"

enum { PATH_BYTES = 4096, VALUE_BYTES = 64, MOST_BYTES = 1 << 20 };

/* ---- the file ------------------------------------------------------------ */

static ls_status place_of(const char *weights, const char *name,
                          char path[PATH_BYTES])
{
    const char *slash = strrchr(weights, '/');
    const int folder = slash != NULL ? (int)(slash + 1 - weights) : 0;
    if (snprintf(path, PATH_BYTES, "%.*s%s", folder, weights, name) <
        PATH_BYTES)
        return LS_OK;
    return lsi_fail(LS_ERR_ARGUMENT, "the path '%s' is too long", weights);
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
        return lsi_fail(LS_ERR_FORMAT,
                        "'%s' is not a configuration: it must be a regular "
                        "file of at most %d bytes",
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

/* *out is NULL if the file does not exist. */
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

ls_status lsi_model_json_open(lsi_model_json *file, const char *weights)
{
    file->json = NULL;
    LS_TRY(place_of(weights, LSI_MODEL_CONFIG, file->path));
    return read_file(file->path, &file->json);
}

void lsi_model_json_close(lsi_model_json *file)
{
    json_decref(file->json);
}

/* ---- values -------------------------------------------------------------- */

/* A value as it stands in the file, cut to fit. */
static const char *value_text(const json_t *value, char text[VALUE_BYTES])
{
    char *dump = lsi_json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    snprintf(text, VALUE_BYTES, "%s", dump != NULL ? dump : "");
    free(dump);
    return text;
}

const json_t *lsi_model_json_get(const json_t *json, const char *key)
{
    const json_t *value = json_object_get(json, key);
    return json_is_null(value) ? NULL : value;
}

ls_status lsi_model_json_wrong(const lsi_model_json *file, const char *key,
                               const json_t *value, const char *wanted)
{
    char text[VALUE_BYTES] = "missing";
    if (value != NULL)
        value_text(value, text);
    return lsi_fail(LS_ERR_FORMAT, "'%s': \"%s\" is %s; it should be %s",
                    file->path, key, text, wanted);
}

ls_status lsi_model_json_unsupported(const lsi_model_json *file,
                                     const char *key, const json_t *value,
                                     const char *supported)
{
    char text[VALUE_BYTES];
    return lsi_fail(LS_ERR_UNSUPPORTED,
                    "'%s' sets \"%s\": %s; only %s is supported", file->path,
                    key, value_text(value, text), supported);
}

ls_status lsi_model_json_check(const lsi_model_json *file,
                               const lsi_json_wanted *wanted, size_t n)
{
    char text[VALUE_BYTES];
    for (size_t i = 0; i < n; i++) {
        const json_t *value = lsi_model_json_get(file->json, wanted[i].key);
        if (value == NULL)
            continue;
        value_text(value, text);
        if (strcmp(text, wanted[i].wanted) == 0 ||
            (wanted[i].other != NULL && strcmp(text, wanted[i].other) == 0))
            continue;
        return lsi_model_json_unsupported(file, wanted[i].key, value,
                                          wanted[i].wanted);
    }
    return LS_OK;
}

ls_status lsi_model_json_counts(const lsi_model_json *file,
                                const lsi_json_count *counts, size_t n,
                                void *out)
{
    for (size_t i = 0; i < n; i++) {
        const lsi_json_count *c = &counts[i];
        const json_t *value = lsi_model_json_get(file->json, c->key);
        if (value == NULL && c->older != NULL)
            value = lsi_model_json_get(file->json, c->older);
        if (value == NULL && !c->needed)
            continue;
        if (json_integer_value(value) < 1)
            return lsi_model_json_wrong(file, c->key, value,
                                        "a whole number above 0");
        *(int64_t *)(void *)((char *)out + c->place) =
            json_integer_value(value);
    }
    return LS_OK;
}

ls_status lsi_model_json_real(const lsi_model_json *file, const json_t *object,
                              const char *key, double *out)
{
    const json_t *value = lsi_model_json_get(object, key);
    if (value == NULL)
        return LS_OK;
    const double number = json_number_value(value);
    if (!(number > 0.0))
        return lsi_model_json_wrong(file, key, value, "a number above 0");
    *out = number;
    return LS_OK;
}

ls_status lsi_model_json_eps(const lsi_model_json *file, const char *key,
                             double *out)
{
    const json_t *value = lsi_model_json_get(file->json, key);
    if (value == NULL)
        return LS_OK;
    const double eps = json_number_value(value);
    if (!(eps > 0.0 && eps < 1.0))
        return lsi_model_json_wrong(file, key, value,
                                    "a number between 0 and 1");
    *out = eps;
    return LS_OK;
}

ls_status lsi_model_json_untied(const lsi_model_json *file, bool *untied)
{
    const json_t *tied = lsi_model_json_get(file->json, "tie_word_embeddings");
    if (tied == NULL)
        return LS_OK;
    if (!json_is_boolean(tied))
        return lsi_model_json_wrong(file, "tie_word_embeddings", tied,
                                    "true or false");
    *untied = json_is_false(tied);
    return LS_OK;
}

/* ---- writing ------------------------------------------------------------- */

bool lsi_model_json_add_wanted(json_t *json, const lsi_json_wanted *wanted,
                               size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *const text = wanted[i].wanted;
        json_t *const value = json_loads(text, JSON_DECODE_ANY, NULL);
        const bool empty =
            json_is_null(value) ||
            (json_is_object(value) && json_object_size(value) == 0);
        if (empty)
            json_decref(value);
        else if (json_object_set_new(json, wanted[i].key, value) != 0)
            return false;
    }
    return true;
}

bool lsi_model_json_add_counts(json_t *json, const lsi_json_count *counts,
                               size_t n, const void *values)
{
    for (size_t i = 0; i < n; i++) {
        const int64_t value =
            *(const int64_t *)(const void *)((const char *)values +
                                             counts[i].place);
        if (json_object_set_new(json, counts[i].key, json_integer(value)) != 0)
            return false;
    }
    return true;
}

static ls_status write_text(const char *weights, const char *name,
                            const char *text)
{
    char path[PATH_BYTES];
    if (text == NULL)
        return lsi_fail(LS_ERR_MEMORY, "not enough memory for a %s", name);
    LS_TRY(place_of(weights, name, path));
    return lsi_atomic_file_put(path, text, strlen(text));
}

ls_status lsi_model_json_write(const char *weights, const char *name,
                               json_t *json)
{
    char *const text =
        json != NULL ? lsi_json_dumps(json, JSON_INDENT(2)) : NULL;
    const ls_status status = write_text(weights, name, text);
    free(text);
    json_decref(json);
    return status;
}
