/* The manifest of a checkpoint; see manifest.h. */
#include "model/checkpoint/manifest.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zlib.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "model/checkpoint/folder.h"
#include "model/checkpoint/optimizer_json.h"

#define FORMAT "lockstep checkpoint 1"

/*
 * Bytes of a manifest, with names of parameters, ranks, and the program's
 * values.
 */
enum { MOST_BYTES = 1 << 30 };

static ls_status no_memory(void)
{
    return lsi_fail(LS_ERR_MEMORY, "not enough memory for the manifest of a "
                                   "checkpoint");
}

/* The checksum of everything except the checksum itself. */
static ls_status checksum(json_t *manifest, uint32_t *out)
{
    json_object_del(manifest, "crc32");
    char *text = lsi_json_dumps(manifest, JSON_COMPACT | JSON_SORT_KEYS);
    if (text == NULL)
        return no_memory();
    *out = (uint32_t)crc32_z(0, (const Bytef *)text, strlen(text));
    free(text);
    return LS_OK;
}

/* ---- writing ------------------------------------------------------------- */

/* Takes over the item; false without memory. */
static bool append(json_t *array, json_t *item)
{
    return json_array_append_new(array, item) == 0;
}

static json_t *file_json(const char *name, const lsi_file_sum *sum)
{
    return json_pack("{s:s, s:I, s:I}", "name", name, "bytes",
                     (json_int_t)sum->bytes, "crc32", (json_int_t)sum->crc32);
}

static json_t *files_json(const lsi_manifest *m)
{
    json_t *files = json_array();
    bool good = append(files, file_json(LSI_MODEL_FILE, &m->model));
    for (int r = 0; good && r < m->ranks; r++)
        good = append(files, file_json(lsi_rank_file(r, m->ranks).text,
                                       &m->rank_files[r]));
    if (good)
        return files;
    json_decref(files);
    return NULL;
}

static ls_status values_json(const char *const *values, json_t **out)
{
    json_t *object = json_object();
    if (object == NULL)
        return no_memory();
    for (; values != NULL && values[0] != NULL; values += 2) {
        const char *value = values[1] != NULL ? values[1] : "";
        if (json_object_set_new(object, values[0], json_string(value)) != 0) {
            json_decref(object);
            return lsi_fail(LS_ERR_ARGUMENT,
                            "checkpoint: the value '%s' is not UTF-8",
                            values[0]);
        }
    }
    *out = object;
    return LS_OK;
}

static ls_status add_checksum(json_t *manifest)
{
    uint32_t sum;
    LS_TRY(checksum(manifest, &sum));
    if (json_object_set_new(manifest, "crc32", json_integer(sum)) == 0)
        return LS_OK;
    return no_memory();
}

static ls_status to_json(const lsi_manifest *m, json_t **out)
{
    json_t *values;
    LS_TRY(values_json(m->values, &values));
    json_t *manifest =
        json_pack("{s:s, s:I, s:i, s:o, s:o, s:o}", "format", FORMAT, "step",
                  (json_int_t)m->step, "ranks", m->ranks, "optimizer",
                  lsi_optimizer_json(m->optimizer), "values", values, "files",
                  files_json(m));
    if (manifest == NULL)
        return no_memory();
    const ls_status status = add_checksum(manifest);
    if (status != LS_OK) {
        json_decref(manifest);
        return status;
    }
    *out = manifest;
    return LS_OK;
}

ls_status lsi_manifest_write(const lsi_manifest *manifest, const char *folder)
{
    json_t *json;
    LS_TRY(to_json(manifest, &json));
    char *text = lsi_json_dumps(json, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
    json_decref(json);
    if (text == NULL)
        return no_memory();
    const size_t n = strlen(text);
    text[n] = '\n'; /* in place of its zero */
    const ls_status status = lsi_atomic_file_put(
        lsi_path_in(folder, LSI_MANIFEST_FILE).text, text, n + 1);
    free(text);
    return status;
}

/* ---- reading ------------------------------------------------------------- */

static ls_status check_format(json_t *manifest, const char *path)
{
    const char *format = json_string_value(json_object_get(manifest, "format"));
    if (format == NULL || strcmp(format, FORMAT) != 0)
        return lsi_fail(LS_ERR_FORMAT, "'%s' has format '%s', expected '%s'",
                        path, format != NULL ? format : "", FORMAT);
    const json_t *field = json_object_get(manifest, "crc32");
    const json_int_t want =
        json_is_integer(field) ? json_integer_value(field) : -1;
    uint32_t got;
    LS_TRY(checksum(manifest, &got));
    if (want != (json_int_t)got)
        return lsi_fail(LS_ERR_FORMAT,
                        "'%s' is damaged: its checksum does not match", path);
    return LS_OK;
}

/* A copied or renamed folder does not match its name. */
static ls_status check_step(const json_t *manifest, const char *folder)
{
    const json_t *field = json_object_get(manifest, "step");
    const int64_t step =
        json_is_integer(field) ? json_integer_value(field) : -1;
    const int64_t named = lsi_step_of(folder);
    if (named < 0 || named == step)
        return LS_OK;
    return lsi_fail(LS_ERR_FORMAT,
                    "the manifest in '%s' gives step %lld, but the name of the "
                    "folder gives another step",
                    folder, (long long)step);
}

static ls_status parse(const char *path, const char *text, size_t bytes,
                       json_t **out)
{
    json_error_t error;
    const ls_status status =
        lsi_json_loadb(text, bytes, JSON_REJECT_DUPLICATES, out, &error);
    if (status != LS_ERR_FORMAT)
        return status;
    return lsi_fail(LS_ERR_FORMAT, "'%s' is damaged: %s at byte %d", path,
                    error.text, error.position);
}

ls_status lsi_manifest_read(const char *folder, json_t **out)
{
    const lsi_path path = lsi_path_in(folder, LSI_MANIFEST_FILE);
    json_t *manifest;
    char *text;
    size_t bytes;
    if (access(path.text, F_OK) != 0 && errno == ENOENT)
        return lsi_fail(LS_ERR_FORMAT,
                        "'%s' has no manifest: its save did not finish",
                        folder);
    LS_TRY(lsi_read_regular(path.text, MOST_BYTES, &text, &bytes));
    ls_status status = parse(path.text, text, bytes, &manifest);
    lsi_free(text);
    LS_TRY(status);
    status = check_format(manifest, path.text);
    if (status == LS_OK)
        status = check_step(manifest, folder);
    if (status != LS_OK) {
        json_decref(manifest);
        return status;
    }
    *out = manifest;
    return LS_OK;
}

static ls_status check_there(const lsi_path *path)
{
    if (access(path->text, F_OK) == 0 || errno != ENOENT)
        return LS_OK;
    return lsi_fail(LS_ERR_FORMAT, "'%s' is missing", path->text);
}

static ls_status verify_file(const json_t *entry, const char *folder)
{
    const char *name = json_string_value(json_object_get(entry, "name"));
    const json_int_t bytes =
        json_integer_value(json_object_get(entry, "bytes"));
    const json_int_t crc32 =
        json_integer_value(json_object_get(entry, "crc32"));
    lsi_file_sum sum;
    if (name == NULL || strchr(name, '/') != NULL)
        return lsi_fail(LS_ERR_FORMAT, "the manifest of '%s' is malformed",
                        folder);
    const lsi_path path = lsi_path_in(folder, name);
    LS_TRY(check_there(&path));
    LS_TRY(lsi_file_sum_of(path.text, &sum));
    if ((json_int_t)sum.bytes != bytes)
        return lsi_fail(LS_ERR_FORMAT,
                        "the file '%s' has %lld bytes, but it had %lld bytes "
                        "when the checkpoint was saved",
                        path.text, (long long)sum.bytes, (long long)bytes);
    if ((json_int_t)sum.crc32 != crc32)
        return lsi_fail(LS_ERR_FORMAT,
                        "'%s' is damaged: its checksum does not match",
                        path.text);
    return LS_OK;
}

ls_status lsi_manifest_verify(const json_t *manifest, const char *folder)
{
    size_t i;
    json_t *entry;
    const json_t *const files = json_object_get(manifest, "files");
    if (json_array_size(files) != (size_t)lsi_manifest_ranks(manifest) + 1)
        return lsi_fail(
            LS_ERR_FORMAT,
            "the manifest of '%s' lists %zu files for %d ranks, but must list "
            "one file for each rank and one for the model",
            folder, json_array_size(files), lsi_manifest_ranks(manifest));
    json_array_foreach(files, i, entry)
    {
        LS_TRY(verify_file(entry, folder));
    }
    return LS_OK;
}

int lsi_manifest_ranks(const json_t *manifest)
{
    return (int)json_integer_value(json_object_get(manifest, "ranks"));
}
