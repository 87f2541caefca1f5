#include "train/jobs/image_file.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "model/nn/transformer.h"
#include "model/tensor/safetensors.h"

/* ---- writing ------------------------------------------------------------- */

/* Names, or null where the data have none. */
static json_t *class_names(const ls_dataset *data)
{
    json_t *names = json_array();
    for (int64_t i = 0; i < ls_dataset_classes(data); i++) {
        const char *name = ls_dataset_class_name(data, i);
        json_t *item = name != NULL ? json_string(name) : json_null();
        /* JSON has no strings other than UTF-8. */
        json_array_append_new(names, item != NULL ? item : json_null());
    }
    return names;
}

static json_t *numbers(const double *values, int64_t n)
{
    json_t *const out = json_array();
    for (int64_t i = 0; i < n; i++)
        json_array_append_new(out, json_real(values[i]));
    return out;
}

ls_status lsi_image_file_describe(const lsi_image_config *config,
                                  const ls_dataset *data, uint64_t seed,
                                  char **out)
{
    const lsi_normalization *const how = lsi_dataset_normalization(data);
    json_t *json = json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:o, s:o, s:o}", "model", config->name,
        "channels", (json_int_t)config->channels, "height",
        (json_int_t)config->height, "width", (json_int_t)config->width, "seed",
        (json_int_t)seed, "mean", numbers(how->mean, config->channels),
        "deviation", numbers(how->deviation, config->channels), "classes",
        class_names(data));
    *out = json != NULL ? lsi_json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    return *out != NULL ? LS_OK
                        : lsi_fail(LS_ERR_MEMORY,
                                   "not enough memory to describe a network");
}

/* ---- reading ------------------------------------------------------------- */

static const json_t *classes_of(const lsi_image_file *file)
{
    return json_object_get(file->json, "classes");
}

/* The longest side of an image that networks are trained on. */
enum { MOST_SIDE = 1 << 13, MOST_CLASSES = 1 << 24 };

static ls_status refuse(const lsi_image_file *file, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static ls_status refuse(const lsi_image_file *file, const char *format, ...)
{
    char why[256];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof(why), format, args);
    va_end(args);
    return lsi_fail(
        LS_ERR_FORMAT,
        "'%s': metadata \"" LSI_IMAGE_NET_KEY
        "\": %s. Give a file that `lockstep train images` has written",
        file->path, why);
}

static ls_status parse_text(const lsi_image_file *file, const char *key,
                            const char **out)
{
    *out = json_string_value(json_object_get(file->json, key));
    return *out != NULL ? LS_OK : refuse(file, "\"%s\" is not a string", key);
}

static ls_status parse_int(const lsi_image_file *file, const char *key,
                           int64_t least, int64_t most, int64_t *out)
{
    const json_t *const value = json_object_get(file->json, key);
    *out = json_integer_value(value);
    if (json_is_integer(value) && *out >= least && *out <= most)
        return LS_OK;
    return refuse(file,
                  "\"%s\" is not a whole number from %" PRId64 " to %" PRId64,
                  key, least, most);
}

/* One for each channel. A deviation of 0 would divide by it. */
static ls_status parse_numbers(const lsi_image_file *file, const char *key,
                               bool positive, double out[3])
{
    const json_t *const array = json_object_get(file->json, key);
    const int64_t n = file->config.channels;
    bool good = (int64_t)json_array_size(array) == n;
    for (int64_t i = 0; good && i < n; i++) {
        const json_t *const value = json_array_get(array, (size_t)i);
        out[i] = json_number_value(value);
        good = json_is_number(value) && (!positive || out[i] > 0);
    }
    if (good)
        return LS_OK;
    return refuse(file,
                  "\"%s\" is not a list of %" PRId64 " %snumber%s, one for "
                  "each channel",
                  key, n, positive ? "positive " : "", n > 1 ? "s" : "");
}

/* A class has no name where the training data had none. */
static ls_status parse_classes(lsi_image_file *file)
{
    const json_t *const classes = classes_of(file);
    const size_t n = json_array_size(classes);
    file->config.classes = (int64_t)n;
    if (n == 0 || n > MOST_CLASSES)
        return refuse(file, "\"classes\" is not a list of 1 to %d names",
                      MOST_CLASSES);
    for (size_t i = 0; i < n; i++) {
        const json_t *const name = json_array_get(classes, i);
        if (!json_is_null(name) && !json_is_string(name))
            return refuse(file,
                          "\"classes\": the name of class %zu is neither a "
                          "string nor null",
                          i);
    }
    return LS_OK;
}

static ls_status parse_members(lsi_image_file *file)
{
    lsi_image_config *const c = &file->config;
    int64_t seed;
    LS_TRY(parse_text(file, "model", &c->name));
    LS_TRY(parse_int(file, "channels", 1, 3, &c->channels));
    if (c->channels == 2)
        return refuse(file, "\"channels\" is 2; it must be 1 or 3");
    LS_TRY(parse_int(file, "height", 1, MOST_SIDE, &c->height));
    LS_TRY(parse_int(file, "width", 1, MOST_SIDE, &c->width));
    LS_TRY(parse_int(file, "seed", 0, INT64_MAX, &seed));
    LS_TRY(parse_numbers(file, "mean", false, file->normalization.mean));
    LS_TRY(
        parse_numbers(file, "deviation", true, file->normalization.deviation));
    file->seed = (uint64_t)seed;
    return parse_classes(file);
}

static ls_status parse(lsi_image_file *file, const char *text)
{
    json_error_t error;
    const ls_status status =
        lsi_json_loadb(text, strlen(text), 0, &file->json, &error);
    if (status == LS_ERR_FORMAT)
        return refuse(file, "it is not valid JSON: %s", error.text);
    LS_TRY(status);
    if (!json_is_object(file->json))
        return refuse(file, "it is not a JSON object");
    return parse_members(file);
}

ls_status lsi_image_file_read(lsi_image_file *out, const char *path)
{
    lsi_safetensors_file file;
    *out = (lsi_image_file){.path = path};
    LS_TRY(lsi_safetensors_open(&file, path));
    const char *text = lsi_safetensors_text(&file, LSI_IMAGE_NET_KEY);
    const bool lm = lsi_safetensors_text(&file, LSI_TRANSFORMER_KEY) != NULL;
    const ls_status status =
        text != NULL ? parse(out, text)
                     : lsi_fail(LS_ERR_FORMAT,
                                "'%s' %s; give an image network that `lockstep "
                                "train images` has saved",
                                path,
                                lm ? "is a language model"
                                   : "has no metadata '" LSI_IMAGE_NET_KEY "'");
    lsi_safetensors_close(&file);
    if (status != LS_OK)
        lsi_image_file_free(out);
    return status;
}

void lsi_image_file_free(lsi_image_file *file)
{
    json_decref(file->json);
    file->json = NULL;
}

const char *lsi_image_file_class(const lsi_image_file *file, int64_t index)
{
    return json_string_value(json_array_get(classes_of(file), (size_t)index));
}

/* ---- comparing ----------------------------------------------------------- */

/* Either of them may have no name for a class. */
static ls_status check_names(const lsi_image_file *file, const ls_dataset *data,
                             const char *data_path)
{
    for (int64_t i = 0; i < file->config.classes; i++) {
        const char *ours = lsi_image_file_class(file, i);
        const char *theirs = ls_dataset_class_name(data, i);
        if (ours != NULL && theirs != NULL && strcmp(ours, theirs) != 0)
            return lsi_fail(LS_ERR_FORMAT,
                            "class %" PRId64
                            " is '%s' in '%s', but '%s' in the network '%s'",
                            i, theirs, data_path, ours, file->path);
    }
    return LS_OK;
}

ls_status lsi_image_file_check(const lsi_image_file *file,
                               const ls_dataset *data, const char *data_path)
{
    const lsi_image_config *const c = &file->config;
    const int64_t *const shape = ls_dataset_field(data, LS_FIELD_IMAGES)->shape;
    if (ls_dataset_classes(data) != c->classes)
        return lsi_fail(
            LS_ERR_FORMAT,
            "'%s' has %" PRId64 " classes, but the network '%s' has %" PRId64
            " classes",
            data_path, ls_dataset_classes(data), file->path, c->classes);
    if (shape[0] != c->channels || shape[1] != c->height ||
        shape[2] != c->width)
        return lsi_fail(
            LS_ERR_FORMAT,
            "the images in '%s' are %" PRId64 " x %" PRId64 " with %" PRId64
            " channels, but the network '%s' needs images of %" PRId64
            " x %" PRId64 " with %" PRId64 " channels",
            data_path, shape[1], shape[2], shape[0], file->path, c->height,
            c->width, c->channels);
    return check_names(file, data, data_path);
}
