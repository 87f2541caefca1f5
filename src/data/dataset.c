/* Reading samples out of records, and the life of a dataset. */
#include "data/dataset.h"

#include <inttypes.h>

#include "base/error.h"
#include "base/memory.h"
#include "compute/array.h"

struct ls_dataset {
    lsi_records records;
    int64_t count;
};

/* Of the 50,000 training images, in units of 0..1, by channel. */
static const double mean[LSI_IMAGE_CHANNELS] = {0.5071, 0.4867, 0.4408};
static const double deviation[LSI_IMAGE_CHANNELS] = {0.2675, 0.2565, 0.2761};

ls_status lsi_dataset_new(ls_dataset **out, const lsi_records *records)
{
    void *block = NULL;
    LS_TRY(lsi_alloc(&block, sizeof(ls_dataset), LS_MEMORY_DATA, "dataset"));
    ls_dataset *dataset = block;
    dataset->records = *records;
    dataset->count = (int64_t)(records->bytes / LSI_RECORD_BYTES);
    *out = dataset;
    return LS_OK;
}

void ls_dataset_free(ls_dataset **dataset)
{
    if (dataset == NULL || *dataset == NULL)
        return;
    lsi_records *records = &(*dataset)->records;
    records->release(records->data, records->bytes);
    lsi_free(*dataset);
    *dataset = NULL;
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

int64_t ls_dataset_count(const ls_dataset *dataset)
{
    return dataset != NULL ? dataset->count : 0;
}

int64_t ls_dataset_classes(const ls_dataset *dataset)
{
    /* Every dataset there is has the classes of CIFAR-100. */
    return dataset != NULL ? LSI_FINE_CLASSES : 0;
}

static const uint8_t *record(const ls_dataset *dataset, int64_t index)
{
    return dataset->records.data + (size_t)index * LSI_RECORD_BYTES;
}

int64_t ls_dataset_label(const ls_dataset *dataset, int64_t index)
{
    if (dataset == NULL || index < 0 || index >= dataset->count)
        return -1;
    return record(dataset, index)[LSI_RECORD_FINE];
}

static ls_status check_indices(const ls_dataset *dataset,
                               const int64_t *indices, int64_t n)
{
    if (n < 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "ls_dataset_read: n is %" PRId64 ", must be >= 0", n);
    for (int64_t i = 0; i < n; i++) {
        if (indices[i] < 0 || indices[i] >= dataset->count)
            return lsi_fail(LS_ERR_ARGUMENT,
                            "ls_dataset_read: indices[%" PRId64 "] is %" PRId64
                            ", but the dataset has the samples 0 to %" PRId64,
                            i, indices[i], dataset->count - 1);
    }
    return LS_OK;
}

ls_status ls_dataset_read(const ls_dataset *dataset, const int64_t *indices,
                          int64_t n, float *images, int64_t *labels)
{
    LS_NEED(dataset);
    if (n > 0) {
        LS_NEED(indices);
        LS_NEED(images);
        LS_NEED(labels);
    }
    LS_TRY(check_indices(dataset, indices, n));
    float scale[LSI_IMAGE_CHANNELS], shift[LSI_IMAGE_CHANNELS];
    for (int c = 0; c < LSI_IMAGE_CHANNELS; c++) {
        scale[c] = (float)(1.0 / (255.0 * deviation[c]));
        shift[c] = (float)(-mean[c] / deviation[c]);
    }
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *r = record(dataset, indices[i]);
        labels[i] = r[LSI_RECORD_FINE];
        lsi_array_normalize_u8(images + i * LSI_IMAGE_BYTES,
                               r + LSI_RECORD_IMAGE, LSI_IMAGE_PIXELS, scale,
                               shift);
    }
    return LS_OK;
}
