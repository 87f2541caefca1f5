#include "train/jobs/image_data.h"

#include <string.h>

#include "base/error.h"

enum { BUILT_IN_TRAIN = 5000, BUILT_IN_TEST = 1000 };

/* Cropping moves by an eighth of the side: 4 pixels of 32. */
enum { PAD_SHARE = 8 };

static ls_status open_built_in(lsi_image_data *d,
                               const lsi_image_data_options *o)
{
    const int64_t count = o->limit > 0 ? o->limit : BUILT_IN_TRAIN;
    LS_TRY(
        ls_dataset_new_synthetic(&d->train, count, o->seed, LS_SUBSET_TRAIN));
    return ls_dataset_new_synthetic(&d->val, BUILT_IN_TEST, o->seed,
                                    LS_SUBSET_TEST);
}

static ls_status open_cifar100(lsi_image_data *d, const char *path)
{
    LS_TRY(ls_dataset_new_cifar100(&d->train, path, LS_SUBSET_TRAIN));
    return ls_dataset_new_cifar100(&d->val, path, LS_SUBSET_TEST);
}

/*
 * Images to validate with are as they are, and say how large all are. Opening
 * the path once compares all of its checksums.
 */
static ls_status open_any(lsi_image_data *d, const lsi_image_data_options *o)
{
    ls_image_options images = {.size = o->size,
                               .channels = o->channels,
                               .skip_checksums = o->skip_checksums,
                               .seed = o->seed};
    memcpy(images.mean, o->normalization.mean, sizeof(images.mean));
    memcpy(images.deviation, o->normalization.deviation,
           sizeof(images.deviation));
    LS_TRY(ls_dataset_new_images(&d->train, o->path, LS_SUBSET_TRAIN, &images));
    const int64_t *const shape =
        ls_dataset_field(d->train, LS_FIELD_IMAGES)->shape;
    images.size = o->size > 0 ? o->size : shape[1];
    images.channels = (int)shape[0];
    images.skip_checksums = true;
    LS_TRY(ls_dataset_new_images(&d->val, o->path, LS_SUBSET_TEST, &images));
    if (!o->augment)
        return LS_OK;
    images.flip = true;
    images.pad = d->pad = (int)(images.size / PAD_SHARE);
    ls_dataset_free(&d->train);
    return ls_dataset_new_images(&d->train, o->path, LS_SUBSET_TRAIN, &images);
}

static ls_status open(lsi_image_data *d, const lsi_image_data_options *o)
{
    if (o->path == NULL)
        return open_built_in(d, o);
    LS_TRY(o->cifar100 ? open_cifar100(d, o->path) : open_any(d, o));
    if (ls_dataset_count(d->train) < 1)
        return lsi_fail(LS_ERR_FORMAT, "'%s' contains no training images",
                        o->path);
    return LS_OK;
}

ls_status lsi_image_data_open(lsi_image_data *out,
                              const lsi_image_data_options *options)
{
    *out = (lsi_image_data){0};
    const ls_status status = open(out, options);
    if (status != LS_OK)
        lsi_image_data_free(out);
    return status;
}

void lsi_image_data_free(lsi_image_data *data)
{
    ls_dataset_free(&data->val);
    ls_dataset_free(&data->train);
}

lsi_image_config lsi_image_data_config(const lsi_image_data *data,
                                       const char *model)
{
    const int64_t *const shape =
        ls_dataset_field(data->train, LS_FIELD_IMAGES)->shape;
    return (lsi_image_config){.name = model,
                              .classes = ls_dataset_classes(data->train),
                              .channels = shape[0],
                              .height = shape[1],
                              .width = shape[2]};
}
