/*
 * Parts that datasets share: their construction, and bytes with an owner.
 * Several are records of the published CIFAR-100 layout in memory, from any
 * source.
 */
#ifndef LS_INPUT_DATA_DATASET_H
#define LS_INPUT_DATA_DATASET_H

#include "base/rng.h"
#include "lockstep/data.h"

enum {
    LSI_IMAGE_SIDE = 32,
    LSI_IMAGE_PIXELS = LSI_IMAGE_SIDE * LSI_IMAGE_SIDE,
    LSI_IMAGE_CHANNELS = 3,
    LSI_IMAGE_BYTES = LSI_IMAGE_CHANNELS * LSI_IMAGE_PIXELS,
    /* A record: coarse label, fine label, three planes of pixels. */
    LSI_RECORD_COARSE = 0,
    LSI_RECORD_FINE = 1,
    LSI_RECORD_IMAGE = 2,
    LSI_RECORD_BYTES = LSI_RECORD_IMAGE + LSI_IMAGE_BYTES,
    LSI_COARSE_CLASSES = 20,
    LSI_FINE_CLASSES = 100
};

/*
 * As ls_dataset_new; of a built-in dataset the read function has recorded why
 * it failed.
 */
ls_status lsi_dataset_new(ls_dataset **out, const ls_dataset_source *source,
                          bool built_in);

/*
 * How pixels became numbers, by channel: (x / 255 - mean) / deviation. Zeros:
 * they are not images.
 */
typedef struct lsi_normalization {
    double mean[3], deviation[3];
} lsi_normalization;
void lsi_dataset_set_normalization(ls_dataset *dataset,
                                   const lsi_normalization *how);
const lsi_normalization *lsi_dataset_normalization(const ls_dataset *dataset);

/* Of a field of one item. */
size_t lsi_dataset_field_bytes(const ls_dataset *dataset, size_t field);

/* Bytes, and how their owner gives them back. */
typedef struct lsi_records {
    uint8_t *data;
    size_t bytes;
    void (*release)(uint8_t *data, size_t bytes);
} lsi_records;

/*
 * A dataset over CIFAR-100 records whose labels and size have been checked.
 * Takes them over on success only.
 */
ls_status lsi_dataset_of_records(ls_dataset **out, const lsi_records *records);

/* Maps a file, read-only. The error names the file and the reason. */
ls_status lsi_records_map(lsi_records *out, const char *path);

/* Bytes that are about to be read: pages of a mapping are fetched meanwhile. */
void lsi_records_expect(const uint8_t *data, size_t bytes);

/*
 * Reads members of a tar archive (plain, or packed by gzip, zstd, xz or bzip2)
 * into memory, in one pass. The record out[i] is the first regular file whose
 * last path component is members[i]. The whole archive is read, and all
 * checksums of a packed one are compared. LS_ERR_FORMAT if a member is missing
 * or the archive is damaged; then all of `out` is zero.
 */
ls_status lsi_records_read_archive(lsi_records *out, const char *path,
                                   const char *const *members, int n);

/* Writes a uniformly random permutation of 0..n-1 (Fisher and Yates). */
void lsi_permutation(lsi_rng_key key, uint64_t sub, int64_t n, int64_t *out);

/* Room for records in accounted memory, undefined contents. */
ls_status lsi_records_alloc(lsi_records *out, size_t bytes);

/* Gives bytes back, if there are any, and leaves zeros. */
void lsi_records_release(lsi_records *records);

#endif
