/* A dataset of CIFAR-100 records. */
#include "array/compute/array.h"
#include "base/error.h"
#include "base/memory.h"
#include "input/data/dataset.h"

typedef struct images {
    lsi_records records;
    float scale[LSI_IMAGE_CHANNELS], shift[LSI_IMAGE_CHANNELS];
} images;

/* Of the 50,000 training images, in units of 0..1, by channel. */
static const lsi_normalization usual = {
    .mean = {0.5071, 0.4867, 0.4408},
    .deviation = {0.2675, 0.2565, 0.2761},
};

static const ls_field fields[] = {
    [LS_FIELD_IMAGES] = {"image",
                         LS_F32,
                         3,
                         {LSI_IMAGE_CHANNELS, LSI_IMAGE_SIDE, LSI_IMAGE_SIDE}},
    [LS_FIELD_LABELS] = {"label", LS_I64, 0, {0}},
};

static const uint8_t *record(const images *set, int64_t index)
{
    return set->records.data + (size_t)index * LSI_RECORD_BYTES;
}

static int64_t label_of(void *context, int64_t index)
{
    return record(context, index)[LSI_RECORD_FINE];
}

static ls_status read_record(void *context, int64_t index, uint64_t epoch,
                             void *const *out)
{
    const images *const set = context;
    const uint8_t *const r = record(set, index);
    (void)epoch;
    *(int64_t *)out[LS_FIELD_LABELS] = r[LSI_RECORD_FINE];
    lsi_array_normalize_u8(out[LS_FIELD_IMAGES], r + LSI_RECORD_IMAGE,
                           LSI_IMAGE_PIXELS, set->scale, set->shift);
    return LS_OK;
}

static void free_records(void *context)
{
    images *const set = context;
    lsi_records_release(&set->records);
    lsi_free(set);
}

ls_status lsi_dataset_of_records(ls_dataset **out, const lsi_records *records)
{
    images *set;
    LS_TRY(lsi_alloc(&set, sizeof(images), LS_MEMORY_DATA, "dataset"));
    set->records = *records;
    for (int c = 0; c < LSI_IMAGE_CHANNELS; c++) {
        set->scale[c] = (float)(1.0 / (255.0 * usual.deviation[c]));
        set->shift[c] = (float)(-usual.mean[c] / usual.deviation[c]);
    }
    const ls_dataset_source source = {
        .count = (int64_t)(records->bytes / LSI_RECORD_BYTES),
        .n_fields = 2,
        .fields = fields,
        .read = read_record,
        .classes = LSI_FINE_CLASSES,
        .label = label_of,
        .context = set,
        .free = free_records};
    const ls_status status = lsi_dataset_new(out, &source, true);
    if (status == LS_OK)
        lsi_dataset_set_normalization(*out, &usual);
    else
        lsi_free(set);
    return status;
}

static void release_block(uint8_t *data, size_t bytes)
{
    (void)bytes;
    lsi_free(data);
}

ls_status lsi_records_alloc(lsi_records *out, size_t bytes)
{
    void *block = NULL;
    LS_TRY(lsi_alloc(&block, bytes, LS_MEMORY_DATA, "dataset records"));
    *out = (lsi_records){block, bytes, release_block};
    return LS_OK;
}

void lsi_records_release(lsi_records *records)
{
    if (records->data != NULL)
        records->release(records->data, records->bytes);
    *records = (lsi_records){0};
}
