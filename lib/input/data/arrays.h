/*
 * Arrays in files: .npy, .npz and IDX, one or several under one path.
 */
#ifndef LS_INPUT_DATA_ARRAYS_H
#define LS_INPUT_DATA_ARRAYS_H

#include <stdbool.h>

#include "input/data/dataset.h"

enum { LSI_ARRAY_NAME = 64, LSI_MOST_ARRAYS = 16 };

/* In row-major order, little endian. */
typedef struct lsi_file_array {
    char name[LSI_ARRAY_NAME];
    char kind;   /* as NumPy has it: 'b' (bool), 'i', 'u' or 'f' */
    size_t size; /* bytes of an element: 1, 2, 4, 8 */
    int ndim;
    int64_t shape[LS_MAX_DIMS];
    const uint8_t *data;
} lsi_file_array;

typedef struct lsi_file_arrays {
    int n;
    lsi_file_array array[LSI_MOST_ARRAYS];
    int n_records; /* in which they lie */
    lsi_records records[LSI_MOST_ARRAYS + 1];
} lsi_file_arrays;

/*
 * The arrays of a path: a file (.npy, .npz or IDX, also packed by gzip), or a
 * folder of such files. The arrays of a file are named after it, those of an
 * .npz as they are there; MNIST's files are train_images, train_labels,
 * test_images and test_labels. The CRC-32 of files in an .npz is compared,
 * unless skip_checksums. *out is the caller's.
 */
ls_status lsi_file_arrays_open(lsi_file_arrays **out, const char *path,
                               bool skip_checksums);
void lsi_file_arrays_free(lsi_file_arrays **arrays);

/* The one of that name, or NULL. */
const lsi_file_array *lsi_file_arrays_find(const lsi_file_arrays *arrays,
                                           const char *name);

/* Whether a folder holds files that lsi_file_arrays_open reads. */
bool lsi_holds_arrays(const char *folder);

/* Element i of an integer or bool array. */
int64_t lsi_file_array_int(const lsi_file_array *array, int64_t i);

/* Whether it is of integers or bools that an i64 can hold. */
bool lsi_file_array_is_int(const lsi_file_array *array);

/*
 * The contents of an .npy or IDX file: *out is a view of them without a name.
 * `where` is for messages.
 */
ls_status lsi_npy_parse(lsi_file_array *out, const uint8_t *data, size_t bytes,
                        const char *where);
ls_status lsi_idx_parse(lsi_file_array *out, const uint8_t *data, size_t bytes,
                        const char *where);

/*
 * Calls `fn` for each file in a zip archive: stored ones are views of the
 * archive, others are unpacked into memory that `fn` owns. LS_ERR_FORMAT if a
 * file's CRC-32 is wrong, unless skip_checksums.
 */
typedef ls_status (*lsi_zip_file_fn)(void *context, const char *name,
                                     const lsi_records *file);
ls_status lsi_zip_read(const lsi_records *records, const char *path,
                       bool skip_checksums, lsi_zip_file_fn fn, void *context);

#endif
