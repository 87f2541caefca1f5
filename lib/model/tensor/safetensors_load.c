/*
 * Reading safetensors. The whole header is checked before any tensor is
 * touched, including the entries of tensors that are not requested. Offsets
 * must be in the file, fit type and shape, and neither overlap nor leave holes.
 */
#include <endian.h>
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/magic.h"
#include "base/memory.h"
#include "model/tensor/safetensors.h"
#include "model/tensor/tensor.h"

typedef lsi_safetensors_entry entry;
typedef lsi_safetensors_file file;

/* ---- bytes --------------------------------------------------------------- */

static ls_status read_at(const file *f, void *out, size_t bytes,
                         uint64_t offset)
{
    char *next = out;
    while (bytes > 0) {
        const ssize_t got = pread(f->fd, next, bytes, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return lsi_fail_errno(LS_ERR_IO, "cannot read '%s'", f->path);
        if (got == 0)
            return lsi_fail(LS_ERR_IO, "'%s' became shorter while it was read",
                            f->path);
        next += got;
        offset += (uint64_t)got;
        bytes -= (size_t)got;
    }
    return LS_OK;
}

static ls_status parse_header(file *f, const char *text, size_t bytes)
{
    json_error_t error;
    if (text[0] != '{')
        return lsi_fail(LS_ERR_FORMAT,
                        "'%s' is not a safetensors file: its header does not "
                        "begin with {",
                        f->path);
    const ls_status status =
        lsi_json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &f->header, &error);
    if (status == LS_ERR_FORMAT)
        return lsi_fail(LS_ERR_FORMAT,
                        "'%s': the header is not valid JSON: %s at byte %d",
                        f->path, error.text, error.position);
    return status;
}

/* ---- kinds of other files ------------------------------------------------ */

typedef struct beginning {
    char bytes[LSI_MAGIC_BYTES];
    size_t n;
} beginning;

/* UTF-8 has no bytes above 0xf4. */
static bool is_text(const beginning *b)
{
    for (size_t i = 0; i < b->n; i++) {
        const unsigned char byte = (unsigned char)b->bytes[i];
        if (byte == 0x7f || byte > 0xf4 ||
            (byte < ' ' && memchr("\t\n\f\r", byte, 4) == NULL))
            return false;
    }
    return b->n > 0;
}

/* NULL if it may be a safetensors file that is damaged. */
static const char *kind_of(const beginning *b)
{
    const lsi_magic magic = lsi_magic_of(b->bytes, b->n);
    if (magic != LSI_MAGIC_NONE)
        return magic != LSI_MAGIC_SAFETENSORS ? lsi_magic_name(magic) : NULL;
    if (!is_text(b))
        return NULL;
    return b->bytes[0] == '{' ? "JSON" : "text";
}

static const char *remedy_for(const beginning *b)
{
    switch (lsi_magic_of(b->bytes, b->n)) {
    case LSI_MAGIC_ZIP:
    case LSI_MAGIC_PICKLE:
        return "; convert PyTorch weights (.pt, .bin) with "
               "safetensors.torch.save_file";
    case LSI_MAGIC_GGUF:
        return "; use the model's original safetensors files";
    case LSI_MAGIC_LFS_POINTER:
        return "; run `git lfs pull` to fetch the file";
    default:
        return b->bytes[0] == '{'
                   ? "; the index of a model in several files is named "
                     "model.safetensors" LSI_SAFETENSORS_INDEX
                   : "";
    }
}

/* A file whose first eight bytes are not the length of a header in it. */
static ls_status not_safetensors(const file *f, uint64_t header,
                                 uint64_t file_size)
{
    beginning b = {.n = sizeof b.bytes};
    if (file_size < b.n)
        b.n = (size_t)file_size;
    LS_TRY(read_at(f, b.bytes, b.n, 0));
    const char *const kind = kind_of(&b);
    if (kind != NULL)
        return lsi_fail(LS_ERR_FORMAT, "'%s' is %s, not a safetensors file%s",
                        f->path, kind, remedy_for(&b));
    if (file_size < LSI_SAFETENSORS_PREFIX)
        return lsi_fail(
            LS_ERR_FORMAT,
            "'%s' is not a safetensors file: it has only %llu bytes", f->path,
            (unsigned long long)file_size);
    return lsi_fail(
        LS_ERR_FORMAT,
        "'%s' is truncated, or not a safetensors file: according to its first "
        "8 bytes the header has %llu bytes, but the whole file has %llu bytes",
        f->path, (unsigned long long)header, (unsigned long long)file_size);
}

/* ---- the header ---------------------------------------------------------- */

static ls_status read_header(file *f, uint64_t file_size)
{
    uint64_t bytes = 0;
    if (file_size < LSI_SAFETENSORS_PREFIX)
        return not_safetensors(f, 0, file_size);
    LS_TRY(read_at(f, &bytes, sizeof bytes, 0));
    bytes = le64toh(bytes);
    if (bytes < 2 || bytes > LSI_SAFETENSORS_MAX_HEADER ||
        bytes > file_size - LSI_SAFETENSORS_PREFIX)
        return not_safetensors(f, bytes, file_size);
    f->data_begin = LSI_SAFETENSORS_PREFIX + bytes;
    f->data_size = file_size - f->data_begin;
    void *text = NULL;
    LS_TRY(lsi_alloc(&text, bytes, LS_MEMORY_OTHER, "a safetensors header"));
    ls_status status = read_at(f, text, bytes, LSI_SAFETENSORS_PREFIX);
    if (status == LS_OK)
        status = parse_header(f, text, bytes);
    lsi_free(text);
    return status;
}

/* ---- one entry ----------------------------------------------------------- */

static ls_status malformed(const file *f, const char *name, const char *what)
{
    return lsi_fail(LS_ERR_FORMAT, "'%s': tensor '%s' %s", f->path, name, what);
}

/* Bytes of an element; 0 for a type that this version does not know. */
static uint64_t element_size(const char *dtype)
{
    static const struct {
        const char *name;
        uint64_t size;
    } sizes[] = {
        {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1},
        {"U16", 2},  {"I16", 2}, {"F16", 2}, {"BF16", 2},    {"U32", 4},
        {"I32", 4},  {"F32", 4}, {"U64", 8}, {"I64", 8},     {"F64", 8},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (strcmp(sizes[i].name, dtype) == 0)
            return sizes[i].size;
    }
    return 0;
}

static ls_status parse_shape(const file *f, const json_t *shape, entry *e,
                             uint64_t *count)
{
    if (!json_is_array(shape))
        return malformed(f, e->name, "has no shape");
    *count = 1;
    e->ndim = (int)json_array_size(shape);
    for (int d = 0; d < e->ndim; d++) {
        const json_t *extent = json_array_get(shape, (size_t)d);
        const json_int_t value = json_integer_value(extent);
        if (!json_is_integer(extent) || value < 0)
            return malformed(f, e->name, "has an invalid extent in its shape");
        if (__builtin_mul_overflow(*count, (uint64_t)value, count))
            return malformed(f, e->name, "has a shape with too many elements");
        if (d < LS_MAX_DIMS)
            e->shape[d] = value;
    }
    return LS_OK;
}

static ls_status parse_offsets(const file *f, const json_t *offsets, entry *e)
{
    const json_t *begin = json_array_get(offsets, 0);
    const json_t *end = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) ||
        !json_is_integer(end) || json_integer_value(begin) < 0 ||
        json_integer_value(end) < json_integer_value(begin))
        return malformed(f, e->name, "has no valid data_offsets");
    e->begin = (uint64_t)json_integer_value(begin);
    e->end = (uint64_t)json_integer_value(end);
    if (e->end > f->data_size)
        return lsi_fail(
            LS_ERR_FORMAT,
            "'%s': tensor '%s' ends at byte %llu of the data, but the data "
            "have only %llu bytes: the file is truncated or damaged",
            f->path, e->name, (unsigned long long)e->end,
            (unsigned long long)f->data_size);
    return LS_OK;
}

static ls_status parse_entry(const file *f, const char *name,
                             const json_t *value, entry *e)
{
    uint64_t count = 0, bytes = 0;
    *e = (entry){.name = name};
    e->dtype = json_string_value(json_object_get(value, "dtype"));
    if (e->dtype == NULL)
        return malformed(f, name, "has no dtype");
    LS_TRY(parse_shape(f, json_object_get(value, "shape"), e, &count));
    LS_TRY(parse_offsets(f, json_object_get(value, "data_offsets"), e));
    const uint64_t size = element_size(e->dtype);
    if (size != 0 && (__builtin_mul_overflow(count, size, &bytes) ||
                      bytes != e->end - e->begin))
        return malformed(f, name, "has data_offsets that do not fit its shape");
    return LS_OK;
}

/* ---- all entries --------------------------------------------------------- */

static ls_status check_metadata(const file *f, json_t *metadata)
{
    const char *key = NULL;
    json_t *value = NULL;
    if (!json_is_object(metadata))
        return lsi_fail(LS_ERR_FORMAT,
                        "'%s': its metadata is not a JSON object", f->path);
    json_object_foreach(metadata, key, value)
    {
        if (!json_is_string(value))
            return lsi_fail(LS_ERR_FORMAT,
                            "'%s': the metadata '%s' is not a string", f->path,
                            key);
    }
    return LS_OK;
}

static int compare_entries(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static ls_status check_cover(const file *f)
{
    uint64_t end = 0;
    for (size_t i = 0; i < f->n_entries; i++) {
        const entry *e = &f->entries[i];
        if (e->begin < end)
            return lsi_fail(LS_ERR_FORMAT,
                            "'%s': tensors '%s' and '%s' overlap", f->path,
                            f->entries[i - 1].name, e->name);
        if (e->begin > end)
            return malformed(f, e->name, "has unused bytes before it");
        end = e->end;
    }
    if (end == f->data_size)
        return LS_OK;
    return lsi_fail(LS_ERR_FORMAT, "'%s': %llu bytes at its end are unused",
                    f->path, (unsigned long long)(f->data_size - end));
}

static ls_status parse_entries(file *f)
{
    const size_t capacity = json_object_size(f->header);
    LS_TRY(lsi_alloc(&f->entries, capacity * sizeof(entry), LS_MEMORY_OTHER,
                     "a safetensors header"));
    const char *name = NULL;
    json_t *value = NULL;
    json_object_foreach(f->header, name, value)
    {
        if (strcmp(name, LSI_SAFETENSORS_METADATA) == 0)
            LS_TRY(check_metadata(f, value));
        else
            LS_TRY(parse_entry(f, name, value, &f->entries[f->n_entries++]));
    }
    if (f->n_entries > 0)
        qsort(f->entries, f->n_entries, sizeof(entry), compare_entries);
    return check_cover(f);
}

/* ---- open and close ------------------------------------------------------ */

void lsi_safetensors_close(file *f)
{
    lsi_safetensors_close_shards(f);
    json_decref(f->header);
    lsi_free(f->entries);
    lsi_free(f->own_path);
    if (f->fd >= 0)
        close(f->fd);
}

static bool is_index(const char *path)
{
    const size_t n = strlen(path), end = strlen(LSI_SAFETENSORS_INDEX);
    return n >= end && strcmp(path + n - end, LSI_SAFETENSORS_INDEX) == 0;
}

ls_status lsi_safetensors_open(file *f, const char *path)
{
    uint64_t bytes;
    *f = (file){.path = path, .prefix = "", .fd = -1};
    if (is_index(path))
        return lsi_safetensors_open_index(f, path);
    LS_TRY(lsi_open_regular(path, 0, &f->fd, &bytes));
    ls_status status = read_header(f, bytes);
    if (status == LS_OK)
        status = parse_entries(f);
    if (status != LS_OK)
        lsi_safetensors_close(f);
    return status;
}

/* ---- filling tensors ----------------------------------------------------- */

/* The file that has an entry's bytes. */
static const file *holder_of(const file *f, const entry *e)
{
    return f->shards != NULL ? &f->shards[e->shard] : f;
}

ls_status lsi_safetensors_read(const file *f, const entry *e, uint64_t offset,
                               void *out, size_t bytes)
{
    const file *of = holder_of(f, e);
    return read_at(of, out, bytes, of->data_begin + e->begin + offset);
}

static const entry *find_prefixed(const file *f, const char *prefix,
                                  const char *name)
{
    const size_t n = strlen(prefix);
    for (size_t i = 0; i < f->n_entries; i++) {
        const char *has = f->entries[i].name;
        if (strncmp(has, prefix, n) == 0 && strcmp(has + n, name) == 0)
            return &f->entries[i];
    }
    return NULL;
}

static const char *prefix_of(const file *f, const char *name)
{
    return f->outside != NULL && strcmp(name, f->outside) == 0 ? "" : f->prefix;
}

const entry *lsi_safetensors_find(const file *f, const char *name)
{
    return find_prefixed(f, prefix_of(f, name), name);
}

static lsi_shape_text shape_of_entry(const entry *e)
{
    lsi_shape_text out = {"(too many dimensions)"};
    return e->ndim <= LS_MAX_DIMS ? lsi_shape_format(e->ndim, e->shape) : out;
}

static bool same_shape(const entry *e, const lsi_safetensors_shape *wanted)
{
    return e->ndim == wanted->ndim &&
           memcmp(e->shape, wanted->extents,
                  (size_t)e->ndim * sizeof e->shape[0]) == 0;
}

static bool has_dtype(const entry *e, ls_dtype dtype)
{
    return strcmp(e->dtype, lsi_safetensors_dtype_of(dtype).text) == 0;
}

static bool can_fill(const file *f, const entry *e, ls_dtype dtype)
{
    return has_dtype(e, dtype) ||
           (f->widens && dtype == LS_F32 &&
            (has_dtype(e, LS_BF16) || has_dtype(e, LS_F16)));
}

static ls_status check_wanted(const file *f, const ls_named_tensor *wanted)
{
    const ls_tensor *tensor = wanted->tensor;
    if (wanted->name == NULL || tensor == NULL)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "'%s': a tensor to load or its name is NULL", f->path);
    if (tensor->storage == NULL)
        return lsi_fail(LS_ERR_STATE,
                        "'%s': '%s' has no memory yet; call "
                        "ls_params_allocate first",
                        f->path, wanted->name);
    const entry *e = lsi_safetensors_find(f, wanted->name);
    if (e == NULL)
        return lsi_fail(LS_ERR_FORMAT, "'%s' has no tensor '%s%s'", f->path,
                        prefix_of(f, wanted->name), wanted->name);
    const lsi_safetensors_shape shape =
        lsi_safetensors_shape_of(tensor, f->matrices);
    if (!same_shape(e, &shape))
        return lsi_fail(LS_ERR_SHAPE,
                        "'%s': tensor '%s' has shape %s, expected %s",
                        holder_of(f, e)->path, e->name, shape_of_entry(e).text,
                        lsi_shape_format(shape.ndim, shape.extents).text);
    if (!can_fill(f, e, tensor->dtype))
        return lsi_fail(LS_ERR_DTYPE,
                        "'%s': tensor '%s' has type %s, expected %s",
                        holder_of(f, e)->path, e->name, e->dtype,
                        lsi_safetensors_dtype_of(tensor->dtype).text);
    return LS_OK;
}

ls_dtype lsi_safetensors_stored(const entry *e, ls_dtype wanted)
{
    if (has_dtype(e, wanted))
        return wanted;
    return has_dtype(e, LS_BF16) ? LS_BF16 : LS_F16;
}

typedef struct part {
    ls_tensor *tensor;
    lsi_range kept;
} part;

static ls_status keep(void *context, lsi_range elements, const void *values)
{
    const part *const p = context;
    const lsi_range both = lsi_range_common(elements, p->kept);
    const size_t size = ls_dtype_size(p->tensor->dtype);
    const unsigned char *const from = values;
    memcpy((unsigned char *)p->tensor->storage->data + both.begin * size,
           from + (both.begin - elements.begin) * size,
           lsi_range_size(both) * size);
    return LS_OK;
}

static ls_status fill(const file *f, const ls_named_tensor *wanted)
{
    const entry *e = lsi_safetensors_find(f, wanted->name);
    const size_t bytes = (size_t)(e->end - e->begin);
    ls_tensor *tensor = wanted->tensor;
    const ls_dtype dtype = lsi_safetensors_stored(e, tensor->dtype);
    part own = {tensor, lsi_tensor_kept(tensor)};
    if (lsi_range_size(own.kept) < (size_t)tensor->count)
        return lsi_safetensors_pieces(f, wanted, own.kept, keep, &own);
    lsi_tensor_used(); /* the tensor before */
    LS_TRY(lsi_tensor_check_memory(tensor, f->path));
    LS_TRY(lsi_tensor_plain(tensor));
    if (dtype == tensor->dtype && ls_tensor_is_contiguous(tensor))
        return lsi_safetensors_read(f, e, 0, lsi_tensor_raw(tensor), bytes);
    ls_tensor *dense = NULL;
    LS_TRY(ls_tensor_new(&dense, dtype, tensor->ndim, tensor->shape));
    ls_status status =
        lsi_safetensors_read(f, e, 0, lsi_tensor_raw(dense), bytes);
    if (status == LS_OK)
        status = ls_tensor_copy(tensor, dense);
    ls_tensor_free(&dense);
    return status;
}

void lsi_safetensors_try_prefix(file *f, const char *prefix, const char *first)
{
    if (lsi_safetensors_find(f, first) == NULL &&
        find_prefixed(f, prefix, first) != NULL)
        f->prefix = prefix;
}

ls_status lsi_safetensors_check(const file *f, const ls_named_tensor *tensors,
                                size_t n)
{
    for (size_t i = 0; i < n; i++)
        LS_TRY(check_wanted(f, &tensors[i]));
    return LS_OK;
}

ls_status lsi_safetensors_fill(const file *f, const ls_named_tensor *tensors,
                               size_t n)
{
    LS_TRY(lsi_safetensors_check(f, tensors, n));
    for (size_t i = 0; i < n; i++)
        LS_TRY(fill(f, &tensors[i]));
    return LS_OK;
}

ls_status ls_safetensors_load(const char *path, const ls_named_tensor *tensors,
                              size_t n)
{
    LS_NEED(path);
    if (n > 0)
        LS_NEED(tensors);
    file f;
    LS_TRY(lsi_safetensors_open(&f, path));
    const ls_status status = lsi_safetensors_fill(&f, tensors, n);
    lsi_safetensors_close(&f);
    return status;
}

const char *lsi_safetensors_text(const file *f, const char *key)
{
    return json_string_value(json_object_get(
        json_object_get(f->header, LSI_SAFETENSORS_METADATA), key));
}
