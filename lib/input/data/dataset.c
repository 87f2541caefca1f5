/* Datasets: the properties of a source, checked once, and its items. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/structs.h"
#include "input/data/dataset.h"

struct ls_dataset {
    ls_dataset_source source;
    ls_field fields[LS_MAX_FIELDS];
    size_t bytes[LS_MAX_FIELDS]; /* of a field of an item */
    bool built_in;               /* its read function records errors itself */
    lsi_normalization normalization;
};

/* ---- making and freeing -------------------------------------------------- */

/*
 * Bytes of a field of one item; 0 if an extent is below 1 or the bytes
 * overflow.
 */
static size_t field_bytes(const ls_field *field)
{
    size_t bytes = ls_dtype_size(field->dtype);
    for (int i = 0; i < field->ndim; i++) {
        const int64_t extent = field->shape[i];
        if (extent < 1 || bytes > (size_t)(INT64_MAX / extent))
            return 0;
        bytes *= (size_t)extent;
    }
    return bytes;
}

static ls_status check_field(const ls_field *field, size_t index)
{
    if (field->name == NULL)
        return lsi_fail(LS_ERR_ARGUMENT, "dataset: field %zu has no name",
                        index);
    if (field->ndim < 0 || field->ndim > LS_MAX_DIMS - 1)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "dataset: the field '%s' has %d dimensions; expected "
                        "0 to %d",
                        field->name, field->ndim, LS_MAX_DIMS - 1);
    if (field_bytes(field) == 0)
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "dataset: the field '%s' has an unknown dtype, an extent below 1, "
            "or a size that does not fit in 64 bits",
            field->name);
    return LS_OK;
}

static ls_status check_source(const ls_dataset_source *s)
{
    if (s->fields == NULL || s->read == NULL)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "dataset: fields or read is NULL in the "
                        "ls_dataset_source; both are required");
    if (s->count < 0 || s->classes < 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "dataset: count is %" PRId64 " and classes is %" PRId64
                        "; neither may be negative",
                        s->count, s->classes);
    if (s->n_fields < 1 || s->n_fields > LS_MAX_FIELDS)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "dataset: n_fields is %zu; expected 1 to %d",
                        s->n_fields, LS_MAX_FIELDS);
    for (size_t f = 0; f < s->n_fields; f++)
        LS_TRY(check_field(&s->fields[f], f));
    return LS_OK;
}

ls_status lsi_dataset_new(ls_dataset **out, const ls_dataset_source *source,
                          bool built_in)
{
    LS_TRY(check_source(source));
    ls_dataset *dataset;
    LS_TRY(lsi_alloc_zeroed(&dataset, sizeof(ls_dataset), LS_MEMORY_DATA,
                            "dataset"));
    dataset->source = *source;
    dataset->built_in = built_in;
    for (size_t f = 0; f < source->n_fields; f++) {
        dataset->fields[f] = source->fields[f];
        dataset->bytes[f] = field_bytes(&source->fields[f]);
    }
    dataset->source.fields = dataset->fields;
    *out = dataset;
    return LS_OK;
}

ls_status ls_dataset_new(ls_dataset **out, const ls_dataset_source *source)
{
    LS_NEED(out, source);
    ls_dataset_source own;
    LS_TRY(LSI_STRUCT_READ(&own, source, ls_dataset_source, free));
    return lsi_dataset_new(out, &own, false);
}

void lsi_dataset_set_normalization(ls_dataset *dataset,
                                   const lsi_normalization *how)
{
    dataset->normalization = *how;
}

const lsi_normalization *lsi_dataset_normalization(const ls_dataset *dataset)
{
    return &dataset->normalization;
}

void ls_dataset_free(ls_dataset **dataset)
{
    if (dataset == NULL || *dataset == NULL)
        return;
    const ls_dataset_source *source = &(*dataset)->source;
    if (source->free != NULL)
        source->free(source->context);
    lsi_free(*dataset);
    *dataset = NULL;
}

/* ---- what it is ---------------------------------------------------------- */

int64_t ls_dataset_count(const ls_dataset *dataset)
{
    return dataset != NULL ? dataset->source.count : 0;
}

int64_t ls_dataset_classes(const ls_dataset *dataset)
{
    return dataset != NULL ? dataset->source.classes : 0;
}

size_t ls_dataset_field_count(const ls_dataset *dataset)
{
    return dataset != NULL ? dataset->source.n_fields : 0;
}

const ls_field *ls_dataset_field(const ls_dataset *dataset, size_t field)
{
    if (field >= ls_dataset_field_count(dataset))
        return NULL;
    return &dataset->fields[field];
}

int64_t ls_dataset_label(const ls_dataset *dataset, int64_t index)
{
    if (index < 0 || index >= ls_dataset_count(dataset) ||
        dataset->source.label == NULL)
        return -1;
    return dataset->source.label(dataset->source.context, index);
}

const char *ls_dataset_class_name(const ls_dataset *dataset,
                                  int64_t class_index)
{
    if (class_index < 0 || class_index >= ls_dataset_classes(dataset) ||
        dataset->source.class_names == NULL)
        return NULL;
    return dataset->source.class_names[class_index];
}

size_t lsi_dataset_field_bytes(const ls_dataset *dataset, size_t field)
{
    return dataset->bytes[field];
}

/* ---- reading ------------------------------------------------------------- */

static ls_status check_indices(const ls_dataset *dataset,
                               const int64_t *indices, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (indices[i] < 0 || indices[i] >= dataset->source.count)
            return lsi_fail(LS_ERR_ARGUMENT,
                            "ls_dataset_read: indices[%zu] is %" PRId64
                            ", but the dataset has the items 0 to %" PRId64,
                            i, indices[i], dataset->source.count - 1);
    }
    return LS_OK;
}

static ls_status read_item(const ls_dataset *dataset, uint64_t epoch,
                           int64_t index, void *const *fields)
{
    const ls_dataset_source *s = &dataset->source;
    const ls_status status = s->read(s->context, index, epoch, fields);
    if (status == LS_OK || dataset->built_in)
        return status;
    return lsi_fail(status < 0 ? status : LS_ERR_IO,
                    "the dataset's read function returned %s for item %" PRId64,
                    ls_status_name(status), index);
}

ls_status ls_dataset_read(const ls_dataset *dataset, uint64_t epoch,
                          const int64_t *indices, size_t n, void *const *fields)
{
    LS_NEED(dataset);
    if (n > 0) {
        LS_NEED(indices, fields);
    }
    LS_TRY(check_indices(dataset, indices, n));
    for (size_t i = 0; i < n; i++) {
        void *at[LS_MAX_FIELDS];
        for (size_t f = 0; f < dataset->source.n_fields; f++)
            at[f] = (uint8_t *)fields[f] + i * dataset->bytes[f];
        LS_TRY(read_item(dataset, epoch, indices[i], at));
    }
    return LS_OK;
}
