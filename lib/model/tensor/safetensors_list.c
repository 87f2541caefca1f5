/* A safetensors file that is open: what is in it, and one tensor at a time. */
#include <jansson.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/structs.h"
#include "model/tensor/safetensors.h"
#include "model/tensor/tensor.h"

struct ls_safetensors {
    lsi_safetensors_file file; /* which owns its path */
    const char **metadata;     /* key, value, ..., NULL; texts of the header */
};

/* ---- open and close ------------------------------------------------------ */

static ls_status list_metadata(ls_safetensors *f)
{
    const char *key = NULL;
    json_t *value = NULL,
           *all = json_object_get(f->file.header, LSI_SAFETENSORS_METADATA);
    size_t n = 0;
    LS_TRY(lsi_alloc(&f->metadata,
                     (2 * json_object_size(all) + 1) * sizeof *f->metadata,
                     LS_MEMORY_OTHER, "a safetensors header"));
    json_object_foreach(all, key, value)
    {
        f->metadata[n++] = key;
        f->metadata[n++] = json_string_value(value);
    }
    f->metadata[n] = NULL;
    return LS_OK;
}

/* Opens a copy of the path, which the file refers to. */
static ls_status open_file(lsi_safetensors_file *file, const char *path)
{
    const size_t bytes = strlen(path) + 1;
    char *copy = NULL;
    LS_TRY(lsi_alloc(&copy, bytes, LS_MEMORY_OTHER, "a path"));
    memcpy(copy, path, bytes);
    const ls_status status = lsi_safetensors_open(file, copy);
    if (status == LS_OK)
        file->own_path = copy;
    else
        lsi_free(copy);
    return status;
}

ls_status ls_safetensors_open(ls_safetensors **out, const char *path)
{
    ls_safetensors *f = NULL;
    LS_NEED(out);
    LS_NEED(path);
    LS_TRY(
        lsi_alloc_zeroed(&f, sizeof *f, LS_MEMORY_OTHER, "a safetensors file"));
    ls_status status = open_file(&f->file, path);
    if (status != LS_OK) {
        lsi_free(f);
        return status;
    }
    status = list_metadata(f);
    if (status == LS_OK)
        *out = f;
    else
        ls_safetensors_close(&f);
    return status;
}

void ls_safetensors_close(ls_safetensors **file)
{
    if (file == NULL || *file == NULL)
        return;
    lsi_safetensors_close(&(*file)->file);
    lsi_free((*file)->metadata);
    lsi_free(*file);
    *file = NULL;
}

/* ---- what is in it ------------------------------------------------------- */

size_t ls_safetensors_count(const ls_safetensors *file)
{
    return file != NULL ? file->file.n_entries : 0;
}

const char *const *ls_safetensors_metadata(const ls_safetensors *file)
{
    return file != NULL ? file->metadata : NULL;
}

static ls_status entry_at(const ls_safetensors *f, size_t index,
                          const lsi_safetensors_entry **out)
{
    if (index >= f->file.n_entries)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "'%s' has no tensor number %zu (tensors: %zu)",
                        f->file.path, index, f->file.n_entries);
    *out = &f->file.entries[index];
    return LS_OK;
}

/* The type with that name in files; false if unknown. */
static bool dtype_named(const char *name, ls_dtype *out)
{
    for (int d = 0; d < LS_DTYPE_COUNT; d++) {
        *out = (ls_dtype)d;
        if (strcmp(lsi_safetensors_dtype_of(*out).text, name) == 0)
            return true;
    }
    return false;
}

static ls_stored_tensor describe(const lsi_safetensors_entry *e)
{
    ls_stored_tensor out = {.name = e->name,
                            .type = e->dtype,
                            .bytes = e->end - e->begin,
                            .ndim = e->ndim};
    const bool known = dtype_named(e->dtype, &out.dtype);
    const bool fits = e->ndim <= LS_MAX_DIMS;
    out.shape = fits ? e->shape : NULL;
    out.readable = known && fits && lsi_dtype_is_of_tensors(out.dtype);
    return out;
}

ls_status ls_safetensors_info(const ls_safetensors *file, size_t index,
                              ls_stored_tensor *out)
{
    const lsi_safetensors_entry *e = NULL;
    LS_NEED(file);
    LS_NEED(out);
    LS_TRY(entry_at(file, index, &e));
    const ls_stored_tensor info = describe(e);
    return LSI_STRUCT_WRITE(out, &info, ls_stored_tensor, readable);
}

/* ---- one tensor ---------------------------------------------------------- */

static ls_status check_readable(const ls_safetensors *f,
                                const ls_stored_tensor *info)
{
    if (info->readable)
        return LS_OK;
    if (info->ndim > LS_MAX_DIMS)
        return lsi_fail(
            LS_ERR_SHAPE,
            "'%s': tensor '%s' has %d dimensions; at most %d are supported",
            f->file.path, info->name, info->ndim, LS_MAX_DIMS);
    return lsi_fail(LS_ERR_DTYPE,
                    "'%s': tensor '%s' has type %s; supported types are F32, "
                    "BF16, F16, I32, I64 and U8",
                    f->file.path, info->name, info->type);
}

ls_status ls_safetensors_read(const ls_safetensors *file, size_t index,
                              ls_tensor **out)
{
    const lsi_safetensors_entry *e = NULL;
    ls_tensor *tensor = NULL;
    LS_NEED(file);
    LS_NEED(out);
    LS_TRY(entry_at(file, index, &e));
    const ls_stored_tensor info = describe(e);
    LS_TRY(check_readable(file, &info));
    LS_TRY(ls_tensor_new(&tensor, info.dtype, info.ndim, info.shape));
    const ls_status status = lsi_safetensors_read(
        &file->file, e, 0, lsi_tensor_raw(tensor), info.bytes);
    if (status == LS_OK)
        *out = tensor;
    else
        ls_tensor_free(&tensor);
    return status;
}
