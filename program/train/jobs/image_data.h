/*
 * The images that a job trains on and validates with, from wherever they come.
 */
#ifndef LS_TRAIN_JOBS_IMAGE_DATA_H
#define LS_TRAIN_JOBS_IMAGE_DATA_H

#include "input/data/dataset.h"
#include "model/nets/image_net.h"

typedef struct lsi_image_data_options {
    const char *path; /* NULL: the built-in set */
    bool cifar100;    /* it is CIFAR-100 in binary form, read as such */
    int64_t size;     /* side of the images; 0: as they are */
    int channels;     /* 0: as they are */
    bool augment;     /* those to train on: flipped and cropped */
    int64_t limit;    /* of the built-in set, images to train on; 0: 5,000 */
    uint64_t seed;
    bool skip_checksums;             /* of an .npz */
    lsi_normalization normalization; /* zeros: the usual one */
} lsi_image_data_options;

typedef struct lsi_image_data {
    ls_dataset *train, *val;
    int pad; /* that cropping moves by at most, in pixels; 0: no augmentation */
} lsi_image_data;

/*
 * Both sets, with at least one image to train on, and images of one shape and
 * one list of classes. Local. On success to be freed by lsi_image_data_free.
 */
ls_status lsi_image_data_open(lsi_image_data *out,
                              const lsi_image_data_options *options);
void lsi_image_data_free(lsi_image_data *data);

/* The configuration of a network for these images. */
lsi_image_config lsi_image_data_config(const lsi_image_data *data,
                                       const char *model);

#endif
