/*
 * Sampler and loader put together. Ranks may get one sample more or less than
 * others, none twice; the number of batches is that of the rank with most, and
 * a rank that has run out gets empty ones, so that all take part in every step.
 */
#include "train/jobs/images.h"

#include <string.h>

#include "base/error.h"
#include "base/memory.h"

enum { USUAL_PREFETCH = 2 };

struct lsi_images {
    lsi_images_options options;
    ls_loader *loader;
    int64_t available; /* samples of the dataset */
    ls_batch empty;
    int64_t *indices; /* of this rank in an epoch */
    int64_t *batch;   /* one batch of them */
};

static ls_status make_empty(ls_batch *empty, const ls_dataset *dataset)
{
    for (size_t f = 0; f < ls_dataset_field_count(dataset); f++) {
        const ls_field *const field = ls_dataset_field(dataset, f);
        int64_t shape[LS_MAX_DIMS] = {0};
        memcpy(shape + 1, field->shape, sizeof(field->shape));
        LS_TRY(ls_tensor_new(&empty->fields[f], field->dtype, field->ndim + 1,
                             shape));
    }
    return LS_OK;
}

static ls_sampler sampler_of(const lsi_images *images, int64_t epoch)
{
    return (ls_sampler){.count = images->options.count,
                        .seed = images->options.seed,
                        .epoch = (uint64_t)epoch,
                        .rank = images->options.rank,
                        .size = images->options.size,
                        .shuffle = true};
}

static ls_status make(lsi_images *images, const ls_dataset *dataset)
{
    const ls_sampler sampler = sampler_of(images, 0);
    LS_TRY(make_empty(&images->empty, dataset));
    LS_TRY(lsi_alloc(&images->indices,
                     (size_t)ls_sampler_count(&sampler) * sizeof(int64_t),
                     LS_MEMORY_DATA, "the order of the samples"));
    LS_TRY(lsi_alloc(&images->batch,
                     (size_t)images->options.batch_size * sizeof(int64_t),
                     LS_MEMORY_DATA, "the order of a batch"));
    const lsi_images_options *const o = &images->options;
    const bool ahead = o->prefetch == 0 && o->threads > 1;
    const ls_loader_options options = {.batch_size = o->batch_size,
                                       .prefetch =
                                           ahead ? USUAL_PREFETCH : o->prefetch,
                                       .threads = o->threads};
    return ls_loader_new(&images->loader, dataset, &options);
}

ls_status lsi_images_new(lsi_images **out, const ls_dataset *dataset,
                         const lsi_images_options *options)
{
    lsi_images *images;
    LS_TRY(lsi_alloc_zeroed(&images, sizeof(lsi_images), LS_MEMORY_DATA,
                            "the image loader"));
    images->options = *options;
    const int64_t count = ls_dataset_count(dataset);
    images->available = count;
    if (options->count == 0 || options->count > count)
        images->options.count = count;
    const ls_status status = make(images, dataset);
    if (status != LS_OK) {
        lsi_images_free(&images);
        return status;
    }
    *out = images;
    return LS_OK;
}

void lsi_images_free(lsi_images **images)
{
    if (images == NULL || *images == NULL)
        return;
    ls_loader_free(&(*images)->loader);
    for (int f = 0; f < LS_MAX_FIELDS; f++)
        ls_tensor_free(&(*images)->empty.fields[f]);
    lsi_free((*images)->batch);
    lsi_free((*images)->indices);
    lsi_free(*images);
    *images = NULL;
}

ls_status lsi_images_begin(lsi_images *images, int64_t epoch,
                           const int64_t *indices, int64_t n)
{
    return ls_loader_begin(images->loader, (uint64_t)epoch, indices, n);
}

ls_status lsi_images_next(lsi_images *images, ls_batch *batch)
{
    LS_TRY(ls_loader_next(images->loader, batch));
    if (batch->count == 0)
        *batch = images->empty;
    return LS_OK;
}

double lsi_images_waited(const lsi_images *images)
{
    ls_loader_stats stats;
    ls_loader_get_stats(images->loader, &stats);
    return stats.wait_seconds;
}

int64_t lsi_images_count(const lsi_images *images)
{
    return images->options.count;
}

int64_t lsi_images_batch_size(const lsi_images *images)
{
    return images->options.batch_size;
}

int64_t lsi_images_steps(const lsi_images *images)
{
    const lsi_images_options *const o = &images->options;
    const int64_t most = (o->count + o->size - 1) / o->size;
    return (most + o->batch_size - 1) / o->batch_size;
}

/* In a folder the first samples belong to the first classes. */
static void spread(const lsi_images *images, int64_t count)
{
    for (int64_t i = 0; i < count && images->options.spread; i++)
        images->indices[i] =
            images->indices[i] * images->available / images->options.count;
}

/* Groups the samples of each slice. */
static void sort_batch(const lsi_images *images, int64_t *indices, int64_t n)
{
    int64_t *next = images->batch;
    for (int64_t j = 0; j < images->options.slices; j++)
        for (int64_t i = j; i < n; i += images->options.slices)
            *next++ = indices[i];
    memcpy(indices, images->batch, (size_t)n * sizeof(int64_t));
}

static void sort_batches(const lsi_images *images, int64_t count)
{
    const int64_t size = images->options.batch_size;
    for (int64_t i = 0; i < count && images->options.slices > 1; i += size)
        sort_batch(images, images->indices + i,
                   count - i < size ? count - i : size);
}

static ls_status begin_epoch(void *self, int64_t epoch, int64_t first,
                             int64_t *steps)
{
    lsi_images *const images = self;
    const ls_sampler sampler = sampler_of(images, epoch);
    LS_TRY(ls_sampler_fill(&sampler, images->indices));
    const int64_t count = ls_sampler_count(&sampler);
    spread(images, count);
    sort_batches(images, count);
    const int64_t done = first * images->options.batch_size;
    const int64_t skip = done < count ? done : count;
    LS_TRY(
        lsi_images_begin(images, epoch, images->indices + skip, count - skip));
    *steps = lsi_images_steps(images);
    return LS_OK;
}

static ls_status next_batch(void *self, ls_batch *batch)
{
    return lsi_images_next(self, batch);
}

lsi_source lsi_images_source(lsi_images *images)
{
    return (lsi_source){images, begin_epoch, next_batch};
}
