/*
 * Safetensors in several files, the shards, and the index that says which shard
 * has a tensor. Tensors that the index does not name are ignored.
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "model/tensor/safetensors.h"

typedef lsi_safetensors_file file;
typedef lsi_safetensors_entry entry;

enum { MOST_BYTES = 1 << 26 };

/* ---- the text ------------------------------------------------------------ */

static ls_status parse(const file *f, const char *text, size_t bytes,
                       json_t **out)
{
    json_error_t error;
    const ls_status status =
        lsi_json_loadb(text, bytes, JSON_REJECT_DUPLICATES, out, &error);
    if (status == LS_ERR_FORMAT)
        return lsi_fail(LS_ERR_FORMAT, "'%s' is not valid JSON: line %d: %s",
                        f->path, error.line, error.text);
    LS_TRY(status);
    if (json_object_size(json_object_get(*out, "weight_map")) > 0)
        return LS_OK;
    json_decref(*out);
    return lsi_fail(LS_ERR_FORMAT,
                    "'%s' is not a safetensors index: it does not contain a "
                    "\"weight_map\" from tensors to files",
                    f->path);
}

static ls_status read_json(const file *f, json_t **out)
{
    char *text = NULL;
    size_t bytes;
    LS_TRY(lsi_read_regular(f->path, MOST_BYTES, &text, &bytes));
    const ls_status status = parse(f, text, bytes, out);
    lsi_free(text);
    return status;
}

/* ---- shards -------------------------------------------------------------- */

static const char *name_of(const file *shard)
{
    const char *slash = strrchr(shard->path, '/');
    return slash != NULL ? slash + 1 : shard->path;
}

static ls_status path_next_to(const file *f, const char *name, char **out)
{
    const char *slash = strrchr(f->path, '/');
    const size_t folder = slash != NULL ? (size_t)(slash + 1 - f->path) : 0;
    const size_t bytes = folder + strlen(name) + 1;
    LS_TRY(lsi_alloc(out, bytes, LS_MEMORY_OTHER, "a path"));
    memcpy(*out, f->path, folder);
    memcpy(*out + folder, name, bytes - folder);
    return LS_OK;
}

static ls_status open_shard(const file *f, const char *name, file *out)
{
    char *path = NULL;
    LS_TRY(path_next_to(f, name, &path));
    const ls_status status = lsi_safetensors_open(out, path);
    if (status == LS_OK) {
        out->own_path = path;
        return LS_OK;
    }
    lsi_free(path);
    return status == LS_ERR_IO
               ? lsi_fail(status,
                          "%s. The index '%s' names this file; all its shards "
                          "must be in the folder of the index",
                          ls_last_error(), f->path)
               : status;
}

/* Checks the name of a file next to the index. */
static ls_status check_name(const file *f, const char *tensor,
                            const json_t *value)
{
    const char *name = json_string_value(value);
    if (name != NULL && name[0] != '\0' && strchr(name, '/') == NULL &&
        strstr(name, LSI_SAFETENSORS_INDEX) == NULL)
        return LS_OK;
    return lsi_fail(LS_ERR_FORMAT,
                    "'%s' does not give a valid file for tensor '%s'; it must "
                    "be the name of a safetensors file in the same folder",
                    f->path, tensor);
}

/* Finds the shard of that name, or opens it; the array has room for it. */
static ls_status find_shard(file *f, const char *name, size_t *out)
{
    size_t i = 0;
    while (i < f->n_shards && strcmp(name_of(&f->shards[i]), name) != 0)
        i++;
    if (i == f->n_shards) {
        LS_TRY(open_shard(f, name, &f->shards[i]));
        f->n_shards++;
    }
    *out = i;
    return LS_OK;
}

static ls_status add(file *f, const char *tensor, const json_t *value)
{
    size_t shard;
    LS_TRY(check_name(f, tensor, value));
    LS_TRY(find_shard(f, json_string_value(value), &shard));
    const entry *found = lsi_safetensors_find(&f->shards[shard], tensor);
    if (found == NULL)
        return lsi_fail(LS_ERR_FORMAT,
                        "'%s' does not contain tensor '%s', although the index "
                        "'%s' lists the tensor for this file",
                        f->shards[shard].path, tensor, f->path);
    f->entries[f->n_entries] = *found;
    f->entries[f->n_entries++].shard = shard;
    return LS_OK;
}

/* An upper bound of the number of named files. */
static size_t count_names(json_t *map)
{
    const char *tensor, *last = "";
    json_t *value;
    size_t n = 0;
    json_object_foreach(map, tensor, value)
    {
        const char *name = json_string_value(value);
        n += name != NULL && strcmp(name, last) != 0;
        last = name != NULL ? name : last;
    }
    return n;
}

static ls_status add_all(file *f, json_t *map)
{
    const char *tensor;
    json_t *value;
    LS_TRY(lsi_alloc(&f->entries, json_object_size(map) * sizeof(entry),
                     LS_MEMORY_OTHER, "an index"));
    LS_TRY(lsi_alloc(&f->shards, (count_names(map) + 1) * sizeof(file),
                     LS_MEMORY_OTHER, "an index"));
    json_object_foreach(map, tensor, value) LS_TRY(add(f, tensor, value));
    return LS_OK;
}

ls_status lsi_safetensors_open_index(file *f, const char *path)
{
    json_t *json = NULL;
    f->path = path;
    LS_TRY(read_json(f, &json));
    const ls_status status = add_all(f, json_object_get(json, "weight_map"));
    json_decref(json);
    if (status != LS_OK)
        lsi_safetensors_close(f);
    return status;
}

void lsi_safetensors_close_shards(file *f)
{
    for (size_t i = 0; i < f->n_shards; i++)
        lsi_safetensors_close(&f->shards[i]);
    lsi_free(f->shards);
}
