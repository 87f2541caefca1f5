/*
 * Sources of images that ls_dataset_new_images can open, before the images are
 * resized, changed at random and normalised.
 */
#ifndef LS_INPUT_DATA_IMAGE_SOURCE_H
#define LS_INPUT_DATA_IMAGE_SOURCE_H

#include <stdbool.h>

#include "input/data/dataset.h"
#include "input/data/file_names.h"
#include "input/data/picture.h"

typedef struct lsi_image_source {
    int64_t count, classes;
    const char *const *class_names; /* or NULL */
    /* Of every image; zeros if they differ. */
    int64_t height, width;
    int channels;
    bool divided; /* only the requested subset, not all images */
    ls_status (*read)(void *context, int64_t index, lsi_picture *out);
    int64_t (*label)(void *context, int64_t index);
    void *context;
    void (*free)(void *context);
} lsi_image_source;

/*
 * Opens a path as the source of that name: a row of image_sources.def. The
 * CRC-32 of files that have one is compared, unless skip_checksums.
 */
#define SOURCE(name, ...)                                                      \
    ls_status lsi_image_source_##name(lsi_image_source *out, const char *path, \
                                      ls_subset subset, bool skip_checksums);
#include "input/data/image_sources.def"
#undef SOURCE

/* Shape and normalisation of the results, for images of any shape. */
typedef struct lsi_image_shape {
    int channels; /* 1 or 3 */
    int64_t height, width;
    lsi_normalization normalization;
} lsi_image_shape;

/*
 * Image files of these paths, which must outlive the dataset, as samples
 * without classes: their labels are 0. An image that cannot be read is a sample
 * of zeros, and its entry in `why`, one for each path, becomes the reason (to
 * be freed by free). A path that has a reason is not read.
 */
ls_status lsi_dataset_of_files(ls_dataset **out, lsi_file_names *paths,
                               const lsi_image_shape *shape, char **why);

/* Whether a folder holds the files of CIFAR-10 or CIFAR-100. */
bool lsi_is_cifar(const char *folder);

#endif
