/*
 * The description of a trained network for images in its file, as JSON in the
 * metadata. It has the network, its images, how their pixels are normalised,
 * and the names of its classes.
 */
#ifndef LS_TRAIN_JOBS_IMAGE_FILE_H
#define LS_TRAIN_JOBS_IMAGE_FILE_H

#include "input/data/dataset.h"
#include "model/nets/image_net.h"

/* Key of the description in the metadata. */
#define LSI_IMAGE_NET_KEY "image_net"

/*
 * Describes a network trained on these data. `seed` is the training seed, by
 * which images may have been held out. *out is freed by the caller with free().
 */
ls_status lsi_image_file_describe(const lsi_image_config *config,
                                  const ls_dataset *data, uint64_t seed,
                                  char **out);

typedef struct lsi_image_file {
    const char *path;
    lsi_image_config config;
    lsi_normalization normalization;
    uint64_t seed;
    struct json_t *json; /* owner of config.name */
} lsi_image_file;

/* Reads a description. On success to be freed by lsi_image_file_free; keeps the
 * path. */
ls_status lsi_image_file_read(lsi_image_file *out, const char *path);
void lsi_image_file_free(lsi_image_file *file);

/* NULL: its data had no name for the class. */
const char *lsi_image_file_class(const lsi_image_file *file, int64_t index);

/* LS_ERR_FORMAT unless the data are images of that shape and those classes. */
ls_status lsi_image_file_check(const lsi_image_file *file,
                               const ls_dataset *data, const char *data_path);

#endif
