/*
 * Where images come from: what ls_dataset_new_images can open, before the
 * images are resized, changed at random and normalised.
 */
#ifndef LS_INPUT_DATA_IMAGE_SOURCE_H
#define LS_INPUT_DATA_IMAGE_SOURCE_H

#include <stdbool.h>

#include "input/data/dataset.h"
#include "input/data/picture.h"

typedef struct lsi_image_source {
    int64_t count, classes;
    const char *const *class_names; /* or NULL */
    /* Of every image; zeros if they differ. */
    int64_t height, width;
    int channels;
    bool divided; /* it is the split that was asked for, not all there is */
    ls_status (*read)(void *context, int64_t index, lsi_picture *out);
    int64_t (*label)(void *context, int64_t index);
    void *context;
    void (*free)(void *context);
} lsi_image_source;

/* A folder of classes, or one that holds two of them. */
ls_status lsi_open_image_folder(lsi_image_source *out, const char *path,
                                ls_split split);

/* CIFAR-10 or CIFAR-100: a folder, or an archive. */
ls_status lsi_open_cifar(lsi_image_source *out, const char *path,
                         ls_split split);

/* Arrays of bytes, of a file or a folder; see data/arrays.h. */
ls_status lsi_open_image_arrays(lsi_image_source *out, const char *path,
                                ls_split split, bool skip_checksums);

/* Whether a folder holds the files of CIFAR-10 or CIFAR-100. */
bool lsi_is_cifar(const char *folder);

#endif
