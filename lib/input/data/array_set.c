/*
 * A dataset of arrays of files: item i is element i of each along its first
 * dimension.
 */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/structs.h"
#include "input/data/arrays.h"

typedef struct array_set {
    lsi_file_arrays *arrays;
    ls_field fields[LS_MAX_FIELDS];
    int64_t elements[LS_MAX_FIELDS]; /* of an item */
    const lsi_file_array *labels;    /* or NULL */
} array_set;

/* The type that holds all values of an array; f64 alone is rounded. */
static bool type_of(const lsi_file_array *a, ls_dtype *out)
{
    static const ls_dtype floats[] = {[2] = LS_F16, [4] = LS_F32, [8] = LS_F32};
    if (a->kind == 'f')
        *out = floats[a->size];
    else if (a->size == 1 && a->kind != 'i')
        *out = LS_U8;
    else if (a->size < 4 || (a->size == 4 && a->kind == 'i'))
        *out = LS_I32;
    else
        *out = LS_I64;
    return a->kind == 'f' || lsi_file_array_is_int(a);
}

/* ---- items --------------------------------------------------------------- */

static void round_doubles(const uint8_t *from, int64_t n, float *to)
{
    for (int64_t i = 0; i < n; i++) {
        double value;
        memcpy(&value, from + i * (int64_t)sizeof value, sizeof value);
        to[i] = (float)value;
    }
}

static void read_field(const array_set *s, int f, int64_t index, void *out)
{
    const lsi_file_array *const a = &s->arrays->array[f];
    const int64_t n = s->elements[f];
    const ls_dtype dtype = s->fields[f].dtype;
    const uint8_t *from = a->data + (size_t)(index * n) * a->size;
    if (a->size == ls_dtype_size(dtype)) {
        memcpy(out, from, (size_t)n * a->size);
    } else if (a->kind == 'f') {
        round_doubles(from, n, out);
    } else {
        for (int64_t i = 0; i < n; i++) {
            const int64_t value = lsi_file_array_int(a, index * n + i);
            if (dtype == LS_I32)
                ((int32_t *)out)[i] = (int32_t)value;
            else
                ((int64_t *)out)[i] = value;
        }
    }
}

static ls_status read_item(void *context, int64_t index, uint64_t epoch,
                           void *const *fields)
{
    const array_set *const s = context;
    (void)epoch;
    for (int f = 0; f < s->arrays->n; f++)
        read_field(s, f, index, fields[f]);
    return LS_OK;
}

static int64_t label_of(void *context, int64_t index)
{
    const array_set *const s = context;
    return lsi_file_array_int(s->labels, index);
}

static void free_set(void *context)
{
    array_set *const s = context;
    lsi_file_arrays_free(&s->arrays);
    lsi_free(s);
}

/* ---- opening ------------------------------------------------------------- */

static ls_status make_field(array_set *s, int f, const char *path)
{
    const lsi_file_array *const a = &s->arrays->array[f];
    ls_field *const field = &s->fields[f];
    if (!type_of(a, &field->dtype))
        return lsi_fail(LS_ERR_UNSUPPORTED,
                        "the array '%s' of '%s' has type %c%zu, which tensors "
                        "do not support; save it as another type, such as i8",
                        a->name, path, a->kind, a->size);
    if (a->ndim < 1 || a->shape[0] != s->arrays->array[0].shape[0])
        return lsi_fail(LS_ERR_FORMAT,
                        "the array '%s' of '%s' has %" PRId64
                        " items, but '%s' has %" PRId64
                        "; all arrays must have the same number of items",
                        a->name, path, a->ndim < 1 ? 1 : a->shape[0],
                        s->arrays->array[0].name, s->arrays->array[0].shape[0]);
    field->name = a->name;
    field->ndim = a->ndim - 1;
    s->elements[f] = 1;
    for (int i = 0; i < field->ndim; i++) {
        field->shape[i] = a->shape[i + 1];
        if (__builtin_mul_overflow(s->elements[f], a->shape[i + 1],
                                   &s->elements[f]) ||
            s->elements[f] > INT64_MAX / (int64_t)sizeof(double))
            return lsi_fail(
                LS_ERR_FORMAT,
                "an item of the array '%s' of '%s' has too many elements; its "
                "size in bytes does not fit in 64 bits",
                a->name, path);
    }
    return LS_OK;
}

/* Integers named like labels; ignored unless all of them are class numbers. */
static int64_t find_labels(array_set *s)
{
    static const char *const usual[] = {"labels", "label", "y"};
    enum { MOST_CLASSES = 1 << 24 };
    const lsi_file_array *a = NULL;
    int64_t classes = 0;
    for (size_t i = 0; i < sizeof usual / sizeof usual[0] && a == NULL; i++)
        a = lsi_file_arrays_find(s->arrays, usual[i]);
    if (a == NULL || a->ndim != 1 || !lsi_file_array_is_int(a))
        return 0;
    for (int64_t i = 0; i < a->shape[0]; i++) {
        const int64_t label = lsi_file_array_int(a, i);
        if (label < 0 || label >= MOST_CLASSES)
            return 0;
        classes = label >= classes ? label + 1 : classes;
    }
    s->labels = a;
    return classes;
}

static ls_status open_set(array_set *s, const char *path, bool skip_checksums,
                          ls_dataset **out)
{
    LS_TRY(lsi_file_arrays_open(&s->arrays, path, skip_checksums));
    if (s->arrays->n > LS_MAX_FIELDS)
        return lsi_fail(LS_ERR_UNSUPPORTED,
                        "'%s' holds %d arrays; a dataset can have at most %d",
                        path, s->arrays->n, LS_MAX_FIELDS);
    for (int f = 0; f < s->arrays->n; f++)
        LS_TRY(make_field(s, f, path));
    const int64_t classes = find_labels(s);
    const ls_dataset_source source = {.count = s->arrays->array[0].shape[0],
                                      .n_fields = (size_t)s->arrays->n,
                                      .fields = s->fields,
                                      .read = read_item,
                                      .classes = classes,
                                      .label =
                                          s->labels != NULL ? label_of : NULL,
                                      .context = s,
                                      .free = free_set};
    return lsi_dataset_new(out, &source, true);
}

ls_status ls_dataset_new_arrays(ls_dataset **out, const char *path,
                                const ls_array_options *options)
{
    static const ls_array_options usual = {0};
    ls_array_options o;
    void *block = NULL;
    LS_NEED(out, path);
    LS_TRY(LSI_STRUCT_READ(&o, options != NULL ? options : &usual,
                           ls_array_options, skip_checksums));
    LS_TRY(lsi_alloc_zeroed(&block, sizeof(array_set), LS_MEMORY_DATA,
                            "a dataset of arrays"));
    const ls_status status = open_set(block, path, o.skip_checksums, out);
    if (status != LS_OK)
        free_set(block);
    return status;
}
