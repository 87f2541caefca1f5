/*
 * Writing safetensors. Wider types come first, so that every tensor is aligned
 * to its elements; within a type the caller's order stays.
 */
#include <endian.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "model/tensor/safetensors.h"
#include "model/tensor/tensor.h"

static size_t bytes_of(const ls_tensor *tensor)
{
    return (size_t)tensor->count * ls_dtype_size(tensor->dtype);
}

/* ---- order --------------------------------------------------------------- */

typedef struct place {
    const ls_named_tensor *named;
    size_t size; /* bytes of an element */
    size_t index;
    bool matrix; /* as lsi_safetensors_save_matrices has it */
} place;

static int compare_places(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->size != y->size)
        return x->size > y->size ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

static ls_status check_tensor(const char *path, const ls_named_tensor *named)
{
    if (named->name == NULL || named->tensor == NULL)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "'%s': a tensor to save or its name is NULL", path);
    if (strcmp(named->name, LSI_SAFETENSORS_METADATA) == 0)
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "'%s': the tensor name '%s' is reserved; use another name", path,
            named->name);
    if (named->tensor->storage == NULL)
        return lsi_fail(LS_ERR_STATE,
                        "'%s': '%s' has no memory yet; call "
                        "ls_params_allocate first",
                        path, named->name);
    return LS_OK;
}

static ls_status sort_places(const char *path, const ls_named_tensor *tensors,
                             size_t n, bool matrices, place **out)
{
    for (size_t i = 0; i < n; i++)
        LS_TRY(check_tensor(path, &tensors[i]));
    LS_TRY(lsi_alloc(out, n * sizeof(place), LS_MEMORY_OTHER,
                     "a safetensors header"));
    for (size_t i = 0; i < n; i++)
        (*out)[i] = (place){
            &tensors[i], ls_dtype_size(tensors[i].tensor->dtype), i, matrices};
    if (n > 0)
        qsort(*out, n, sizeof(place), compare_places);
    return LS_OK;
}

/* ---- header -------------------------------------------------------------- */

lsi_safetensors_shape lsi_safetensors_shape_of(const ls_tensor *tensor,
                                               bool matrices)
{
    const int joined = matrices && tensor->ndim > 2 ? tensor->ndim - 2 : 0;
    lsi_safetensors_shape out = {.ndim = tensor->ndim - joined};
    for (int d = 0; d < out.ndim; d++)
        out.extents[d] = tensor->shape[joined + d];
    for (int d = 0; d < joined; d++)
        out.extents[0] *= tensor->shape[d];
    return out;
}

static json_t *describe(const place *at, uint64_t begin)
{
    const ls_tensor *const tensor = at->named->tensor;
    const lsi_safetensors_shape has =
        lsi_safetensors_shape_of(tensor, at->matrix);
    json_t *shape = json_array();
    for (int d = 0; d < has.ndim; d++) {
        if (json_array_append_new(shape, json_integer(has.extents[d])) != 0) {
            json_decref(shape);
            return NULL;
        }
    }
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype",
                     lsi_safetensors_dtype_of(tensor->dtype).text, "shape",
                     shape, "data_offsets", (json_int_t)begin,
                     (json_int_t)(begin + bytes_of(tensor)));
}

static ls_status no_memory(const char *path)
{
    return lsi_fail(LS_ERR_MEMORY, "'%s': not enough memory for the header",
                    path);
}

static ls_status add_metadata(json_t *header, const char *path,
                              const char *const *metadata)
{
    json_t *object = json_object();
    if (json_object_set_new(header, LSI_SAFETENSORS_METADATA, object) != 0)
        return no_memory(path);
    for (; metadata[0] != NULL; metadata += 2) {
        if (metadata[1] == NULL)
            return lsi_fail(LS_ERR_ARGUMENT,
                            "'%s': the metadata '%s' has no value", path,
                            metadata[0]);
        json_t *value = json_string(metadata[1]);
        if (json_object_set_new(object, metadata[0], value) != 0)
            return lsi_fail(LS_ERR_ARGUMENT,
                            "'%s': the metadata '%s' is not UTF-8", path,
                            metadata[0]);
    }
    return LS_OK;
}

static ls_status add_tensors(json_t *header, const char *path,
                             const place *places, size_t n)
{
    uint64_t begin = 0;
    for (size_t i = 0; i < n; i++) {
        const char *name = places[i].named->name;
        const ls_tensor *tensor = places[i].named->tensor;
        if (json_object_get(header, name) != NULL)
            return lsi_fail(LS_ERR_ARGUMENT,
                            "'%s': two tensors have the name '%s'", path, name);
        json_t *entry = describe(&places[i], begin);
        if (entry == NULL)
            return no_memory(path);
        if (json_object_set_new(header, name, entry) != 0)
            return lsi_fail(LS_ERR_ARGUMENT,
                            "'%s': the name of a tensor is not UTF-8", path);
        begin += bytes_of(tensor);
    }
    return LS_OK;
}

/* ---- file ---------------------------------------------------------------- */

/* Blanks at the end make the elements begin at a multiple of 8. */
static ls_status write_header(lsi_atomic_file *file, const char *text)
{
    static const char blanks[] = "        ";
    const size_t length = strlen(text);
    const size_t padding = (8 - length % 8) % 8;
    const uint64_t prefix = htole64(length + padding);
    if (length + padding > LSI_SAFETENSORS_MAX_HEADER)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "'%s': the safetensors header needs %zu bytes, more "
                        "than the format allows",
                        file->path, length);
    LS_TRY(lsi_atomic_file_write(file, &prefix, sizeof prefix));
    LS_TRY(lsi_atomic_file_write(file, text, length));
    return lsi_atomic_file_write(file, blanks, padding);
}

static ls_status write_tensor(lsi_atomic_file *file, ls_tensor *tensor)
{
    lsi_tensor_used(); /* the tensor before */
    LS_TRY(lsi_tensor_check_memory(tensor, file->path));
    if (ls_tensor_is_contiguous(tensor)) {
        LS_TRY(lsi_tensor_plain(tensor));
        return lsi_atomic_file_write(file, lsi_tensor_raw(tensor),
                                     bytes_of(tensor));
    }
    ls_tensor *dense = NULL;
    LS_TRY(ls_tensor_new(&dense, tensor->dtype, tensor->ndim, tensor->shape));
    ls_status status = ls_tensor_copy(dense, tensor);
    if (status == LS_OK)
        status =
            lsi_atomic_file_write(file, lsi_tensor_raw(dense), bytes_of(dense));
    ls_tensor_free(&dense);
    return status;
}

static ls_status write_all(lsi_atomic_file *file, const json_t *header,
                           const place *places, size_t n)
{
    char *text = lsi_json_dumps(header, JSON_COMPACT | JSON_PRESERVE_ORDER);
    if (text == NULL)
        return no_memory(file->path);
    const ls_status status = write_header(file, text);
    free(text);
    LS_TRY(status);
    for (size_t i = 0; i < n; i++)
        LS_TRY(write_tensor(file, places[i].named->tensor));
    return LS_OK;
}

static ls_status write_file(const char *path, const json_t *header,
                            const place *places, size_t n, lsi_file_sum *sum)
{
    lsi_atomic_file file = {.fd = -1};
    LS_TRY(lsi_atomic_file_open(&file, path));
    const ls_status status = write_all(&file, header, places, n);
    *sum = file.sum;
    if (status == LS_OK)
        return lsi_atomic_file_commit(&file);
    lsi_atomic_file_abandon(&file);
    return status;
}

static ls_status save_places(const char *path, const place *places, size_t n,
                             const char *const *metadata, lsi_file_sum *sum)
{
    ls_status status = LS_OK;
    json_t *header = json_object();
    if (header == NULL)
        return no_memory(path);
    if (metadata != NULL)
        status = add_metadata(header, path, metadata);
    if (status == LS_OK)
        status = add_tensors(header, path, places, n);
    if (status == LS_OK)
        status = write_file(path, header, places, n, sum);
    json_decref(header);
    return status;
}

ls_status lsi_safetensors_save(const char *path, const ls_named_tensor *tensors,
                               size_t n, const char *const *metadata,
                               lsi_file_sum *sum)
{
    place *places = NULL;
    LS_TRY(sort_places(path, tensors, n, false, &places));
    const ls_status status = save_places(path, places, n, metadata, sum);
    lsi_free(places);
    return status;
}

ls_status ls_safetensors_save(const char *path, const ls_named_tensor *tensors,
                              size_t n, const char *const *metadata)
{
    LS_NEED(path);
    if (n > 0)
        LS_NEED(tensors);
    lsi_file_sum sum;
    LS_TRY(lsi_make_parents(path));
    return lsi_safetensors_save(path, tensors, n, metadata, &sum);
}

ls_status lsi_safetensors_save_matrices(const char *path,
                                        const ls_named_tensor *tensors,
                                        size_t n, const char *const *metadata)
{
    place *places = NULL;
    lsi_file_sum sum;
    LS_TRY(lsi_make_parents(path));
    LS_TRY(sort_places(path, tensors, n, true, &places));
    const ls_status status = save_places(path, places, n, metadata, &sum);
    lsi_free(places);
    return status;
}
