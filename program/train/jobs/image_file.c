#include "train/jobs/image_file.h"

#include <inttypes.h>
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
        /* What is not UTF-8 has no place in JSON. */
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
    return *out != NULL
               ? LS_OK
               : lsi_fail(LS_ERR_MEMORY, "no memory to describe a network");
}

/* ---- reading ------------------------------------------------------------- */

static const json_t *classes_of(const lsi_image_file *file)
{
    return json_object_get(file->json, "classes");
}

static bool parse_numbers(const json_t *array, int64_t n, double out[3])
{
    if (n > 3 || (int64_t)json_array_size(array) != n)
        return false;
    for (int64_t i = 0; i < n; i++)
        out[i] = json_number_value(json_array_get(array, (size_t)i));
    return true;
}

/* A deviation that is not positive would divide by it. */
static bool parse_normalization(const json_t *json, int64_t channels,
                                lsi_normalization *out)
{
    bool good =
        parse_numbers(json_object_get(json, "mean"), channels, out->mean) &&
        parse_numbers(json_object_get(json, "deviation"), channels,
                      out->deviation);
    for (int64_t c = 0; good && c < channels; c++)
        good = out->deviation[c] > 0;
    return good;
}

static ls_status parse(lsi_image_file *file, const char *text)
{
    json_error_t error;
    json_int_t seed = 0, sides[3] = {0};
    const json_t *classes = NULL;
    ls_status status =
        lsi_json_loadb(text, strlen(text), 0, &file->json, &error);
    if (status == LS_OK &&
        (json_unpack(file->json, "{s:s, s:I, s:I, s:I, s:I, s:o}", "model",
                     &file->config.name, "channels", &sides[0], "height",
                     &sides[1], "width", &sides[2], "seed", &seed, "classes",
                     &classes) != 0 ||
         !json_is_array(classes) ||
         !parse_normalization(file->json, sides[0], &file->normalization)))
        status = LS_ERR_FORMAT;
    if (status == LS_ERR_FORMAT)
        return lsi_fail(LS_ERR_FORMAT,
                        "'%s' has metadata \"" LSI_IMAGE_NET_KEY
                        "\" that say nothing of a network; `lockstep train "
                        "images` writes such a file",
                        file->path);
    LS_TRY(status);
    file->config.channels = sides[0];
    file->config.height = sides[1];
    file->config.width = sides[2];
    file->config.classes = (int64_t)json_array_size(classes);
    file->seed = (uint64_t)seed;
    return LS_OK;
}

ls_status lsi_image_file_read(lsi_image_file *out, const char *path)
{
    lsi_safetensors_file file;
    *out = (lsi_image_file){.path = path};
    LS_TRY(lsi_safetensors_open(&file, path));
    const char *text = lsi_safetensors_text(&file, LSI_IMAGE_NET_KEY);
    const bool lm = lsi_safetensors_text(&file, LSI_TRANSFORMER_KEY) != NULL;
    const ls_status status =
        text != NULL
            ? parse(out, text)
            : lsi_fail(LS_ERR_FORMAT,
                       "'%s' %s; it should be a network for images, which "
                       "`lockstep train images` writes",
                       path,
                       lm ? "is a language model"
                          : "has no metadata \"" LSI_IMAGE_NET_KEY "\"");
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
                            "class %" PRId64 " of '%s' is '%s', but that of "
                            "the network of '%s' is '%s'",
                            i, data_path, theirs, file->path, ours);
    }
    return LS_OK;
}

ls_status lsi_image_file_check(const lsi_image_file *file,
                               const ls_dataset *data, const char *data_path)
{
    const lsi_image_config *const c = &file->config;
    const int64_t *const shape = ls_dataset_field(data, LS_FIELD_IMAGES)->shape;
    if (ls_dataset_classes(data) != c->classes)
        return lsi_fail(LS_ERR_FORMAT,
                        "'%s' has %" PRId64 " classes, but the network of '%s' "
                        "tells %" PRId64 " apart",
                        data_path, ls_dataset_classes(data), file->path,
                        c->classes);
    if (shape[0] != c->channels || shape[1] != c->height ||
        shape[2] != c->width)
        return lsi_fail(LS_ERR_FORMAT,
                        "the images of '%s' are %" PRId64 " x %" PRId64
                        " with %" PRId64 " channels, but the network of '%s' "
                        "takes %" PRId64 " x %" PRId64 " with %" PRId64,
                        data_path, shape[1], shape[2], shape[0], file->path,
                        c->height, c->width, c->channels);
    return check_names(file, data, data_path);
}
