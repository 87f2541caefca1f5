/*
 * Datasets, samplers and loaders.
 */
#ifndef LOCKSTEP_DATA_H
#define LOCKSTEP_DATA_H

#include "lockstep/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- datasets ------------------------------------------------------------ */

/*
 * A dataset is a number of items of the same shape, each of one or more fields:
 * an image and its label, say.
 */
typedef struct ls_dataset ls_dataset;

#define LS_MAX_FIELDS 8

typedef struct ls_field {
    const char *name; /* for messages */
    ls_dtype dtype;
    int ndim; /* 0: one element; at most LS_MAX_DIMS - 1 */
    int64_t shape[LS_MAX_DIMS - 1];
} ls_field;

/* A dataset, described by its owner. */
typedef struct ls_dataset_source {
    size_t struct_size; /* sizeof, or 0: as in 0.1 (docs/reference/abi.md) */
    int64_t count;      /* of items */
    const ls_field *fields; /* copied */
    size_t n_fields;        /* 1 to LS_MAX_FIELDS */
    /*
     * Writes item `index` to memory of the caller's: field f, row-major and
     * without gaps, to fields[f]. Several threads call it at the same time. The
     * item must depend on (index, epoch) alone: then it has the same bits on
     * any number of ranks and threads, and after a resume.
     */
    ls_status (*read)(void *context, int64_t index, uint64_t epoch,
                      void *const *fields);
    int64_t classes; /* of the labels, which are 0..classes-1; 0: no labels */
    /* The label of an item without reading it all; NULL: not known. */
    int64_t (*label)(void *context, int64_t index);
    /* `classes` names that stay as long as the dataset, or NULL. */
    const char *const *class_names;
    void *context;
    void (*free)(void *context); /* when the dataset is freed; or NULL */
} ls_dataset_source;

/*
 * A dataset of the caller's own. On success *out is the caller's and owns the
 * context. LS_ERR_ARGUMENT says what is wrong with the source. Local.
 */
LS_API LS_MUST_CHECK ls_status ls_dataset_new(ls_dataset **out,
                                              const ls_dataset_source *source);

/* Frees it and sets *dataset to NULL. Accepts NULLs. */
LS_API void ls_dataset_free(ls_dataset **dataset);

/* The number of items, and the number of classes of the labels. */
LS_API int64_t ls_dataset_count(const ls_dataset *dataset);
LS_API int64_t ls_dataset_classes(const ls_dataset *dataset);

/* The number of fields; and one of them, NULL unless field < that. */
LS_API size_t ls_dataset_field_count(const ls_dataset *dataset);
LS_API const ls_field *ls_dataset_field(const ls_dataset *dataset,
                                        size_t field);

/* The label of an item; -1 unless 0 <= index < count, or if not known. */
LS_API int64_t ls_dataset_label(const ls_dataset *dataset, int64_t index);

/* The name of a class; NULL unless there is one. */
LS_API const char *ls_dataset_class_name(const ls_dataset *dataset,
                                         int64_t class_index);

/*
 * Writes the items indices[0..n-1], as they are in that epoch: field f to
 * fields[f], (n, shape of the field), row-major memory of the caller's. If one
 * cannot be read the error says which and why.
 */
LS_API LS_MUST_CHECK ls_status ls_dataset_read(const ls_dataset *dataset,
                                               uint64_t epoch,
                                               const int64_t *indices, size_t n,
                                               void *const *fields);

/* ---- images -------------------------------------------------------------- */

/* The fields of every set of images. */
enum {
    LS_FIELD_IMAGES, /* (channels, height, width) f32 */
    LS_FIELD_LABELS  /* () i64 */
};

typedef enum ls_subset { LS_SUBSET_TRAIN, LS_SUBSET_TEST } ls_subset;

/*
 * CIFAR-100 in the published binary layout: records of 3,074 bytes (coarse
 * label, fine label, 3,072 planar RGB bytes). `path` is a folder that holds
 * train.bin and test.bin (or holds cifar-100-binary/). It may also be a .tar of
 * it, plain or packed by gzip, zstd, xz or bzip2, whose checksums are compared.
 * Images are (3, 32, 32), normalized by the mean and deviation of each channel.
 * Files in a folder are mapped and must not change while the dataset is open.
 * Every rank reads an archive into private memory. Neither can be a pipe. A
 * size that is not a multiple of the record size, or a label above 99, is
 * LS_ERR_FORMAT with the file and the record. Local.
 */
LS_API LS_MUST_CHECK ls_status ls_dataset_new_cifar100(ls_dataset **out,
                                                       const char *path,
                                                       ls_subset subset);

/*
 * A set of `count` images of the same shape, generated from `seed`. Each of the
 * 100 classes is a pattern with random noise, shifts and brightness, so that a
 * network can learn it and generalize. Train and test differ.
 */
LS_API LS_MUST_CHECK ls_status ls_dataset_new_synthetic(ls_dataset **out,
                                                        int64_t count,
                                                        uint64_t seed,
                                                        ls_subset subset);

/* Preprocessing of images of any kind; zeros are the defaults. */
typedef struct ls_image_options {
    size_t struct_size; /* sizeof, or 0: as in 0.1 (docs/reference/abi.md) */
    int64_t size; /* side of what is read, in pixels; 0: that of the data */
    int channels; /* 1 or 3; 0: those of the data */
    /*
     * Of each channel, in units of 0..1: pixels are read as (x / 255 - mean) /
     * deviation. A deviation of 0 takes both from the images of ImageNet.
     */
    double mean[3], deviation[3];
    /* Of training images, drawn again in each epoch: */
    bool flip; /* mirrored from left to right, every other one */
    int pad;   /* cropped at random from the image with this number of black */
               /* pixels on each side */
    bool skip_checksums; /* as in ls_array_options */
    uint64_t seed;       /* of these, and of which tenth is held out */
} ls_image_options;

/* Images as they are. */
#define LS_IMAGE_OPTIONS_INIT                                                  \
    {                                                                          \
        sizeof(ls_image_options), 0, 0, {0, 0, 0}, {0, 0, 0}, false, 0, false, \
            0                                                                  \
    }

/*
 * The images of a path, whatever it is:
 *
 *   - a folder of classes, `class/name.png` or `.jpg`; classes are numbered in
 *     the order of their names, and so are the images of each;
 *   - a folder that holds `train` and one of `val`, `valid`, `test`, folders of
 *     the same classes;
 *   - CIFAR-10 or CIFAR-100 in the published binary layout: the folder, or an
 *     archive as for ls_dataset_new_cifar100;
 *   - arrays of u8, (N, H, W), (N, H, W, C) or (N, C, H, W) with 1 or 3
 *     channels, and of N labels: an .npz, or a folder of .npy files, that are
 *     called train_images, train_labels, and val_ or test_ likewise; or x_train
 *     and y_train; or images and labels, x and y. Or one images.npy with
 *     labels.npy beside it;
 *   - MNIST and what is made like it: a folder of its four IDX files, which may
 *     be packed by gzip.
 *
 * Without a validation set, a tenth of the images is held out, drawn by the
 * seed: LS_SUBSET_TEST. An image whose side is not `size` is resized so that
 * its shorter side is (bilinear, with antialiasing, as in Pillow), then cropped
 * in the middle. With size 0 the side is the shorter one of the first image. An
 * item is a function of (options, epoch, index).
 *
 * options may be NULL. The first bytes of a file decide its format. A file that
 * cannot be read is an error with its name, when it is opened or when its item
 * is read. Local.
 */
LS_API LS_MUST_CHECK ls_status
ls_dataset_new_images(ls_dataset **out, const char *path, ls_subset subset,
                      const ls_image_options *options);

/* ---- arrays and tables --------------------------------------------------- */

/* How arrays are read; zeros are the usual. */
typedef struct ls_array_options {
    size_t struct_size; /* sizeof, or 0: as in 0.1 (docs/reference/abi.md) */
    /*
     * Do not compare the CRC-32 of the arrays in an .npz, which reads all of it
     * at opening (docs/how-to/data.md). For all ranks of a node but one, say:
     * ls_group_local_rank(group) != 0.
     */
    bool skip_checksums;
} ls_array_options;

/* Checksums are compared. */
#define LS_ARRAY_OPTIONS_INIT                                                  \
    {                                                                          \
        sizeof(ls_array_options), false                                        \
    }

/*
 * Arrays of any type and shape: an .npy or .npz file, or a folder of .npy
 * files. Each array is a field, and their first dimension is that of the items;
 * u2 and smaller become i32, u4 i64, f8 is rounded to f32. An array of integers
 * called labels, label or y gives the classes. Files are mapped and may be
 * larger than memory, but for what is packed. An array of an .npz whose CRC-32
 * is wrong is LS_ERR_FORMAT. options may be NULL. Local.
 */
LS_API LS_MUST_CHECK ls_status ls_dataset_new_arrays(
    ls_dataset **out, const char *path, const ls_array_options *options);

typedef enum ls_csv_header {
    LS_CSV_AUTO,     /* decide by the first two rows */
    LS_CSV_HEADER,   /* the first row names the columns */
    LS_CSV_NO_HEADER /* the first row is data */
} ls_csv_header;

/* How a table is read; zeros are the usual. */
typedef struct ls_csv_options {
    size_t struct_size; /* sizeof, or 0: as in 0.1 (docs/reference/abi.md) */
    ls_csv_header header;
} ls_csv_options;

/* LS_CSV_AUTO. */
#define LS_CSV_OPTIONS_INIT                                                    \
    {                                                                          \
        sizeof(ls_csv_options), LS_CSV_AUTO                                    \
    }

/*
 * A table of numbers in text: rows are lines, columns are between commas,
 * semicolons or tabs; cells may be in quotes, as in RFC 4180. Field 0 is f32
 * (all columns but the label). Field 1 is i64, if `label` names a column of
 * classes 0, 1, 2, ...: "last" is the last, NULL none. A cell that is not a
 * decimal number is LS_ERR_FORMAT with its line and column. With LS_CSV_AUTO a
 * first row with names is a header (docs/how-to/data.md). If a cell of that row
 * is neither clearly a name nor a number, a warning in the log states the
 * assumption. options may be NULL. Local.
 */
LS_API LS_MUST_CHECK ls_status
ls_dataset_new_csv(ls_dataset **out, const char *path, const char *label,
                   const ls_csv_options *options);

/* ---- samplers ------------------------------------------------------------ */

/*
 * Which samples a rank sees in an epoch, and in which order: a pure function
 * of these numbers. All ranks draw the same permutation of 0..count-1 from
 * (seed, epoch) and rank r takes its elements r, r + size, r + 2 size, ...
 * With pad = true the permutation is extended by its own beginning so that all
 * ranks get equally many; with false, no sample is seen twice and ranks may
 * differ by one.
 */
typedef struct ls_sampler {
    size_t struct_size; /* sizeof, or 0: as in 0.1 (docs/reference/abi.md) */
    int64_t count;
    uint64_t seed;
    uint64_t epoch;
    int rank, size;
    bool shuffle;
    bool pad;
} ls_sampler;

/* How many samples the rank gets; 0 if the sampler is not valid. */
LS_API int64_t ls_sampler_count(const ls_sampler *sampler);

/* Writes them: indices has room for ls_sampler_count elements. */
LS_API LS_MUST_CHECK ls_status ls_sampler_fill(const ls_sampler *sampler,
                                               int64_t *indices);

/* ---- loaders ------------------------------------------------------------- */

/*
 * Reads batches ahead on separate threads. The order is that of the indices,
 * for any number of threads; the last batch may be smaller.
 */
typedef struct ls_loader ls_loader;

typedef struct ls_loader_options {
    size_t struct_size; /* sizeof, or 0: as in 0.1 (docs/reference/abi.md) */
    int64_t batch_size; /* required */
    int prefetch;       /* batches read ahead; 0: read in the caller's thread */
    int threads;        /* that read ahead, 0: 1; at most 64 */
} ls_loader_options;

/* Nothing is read ahead. batch_size must be set. */
#define LS_LOADER_OPTIONS_INIT                                                 \
    {                                                                          \
        sizeof(ls_loader_options), 0, 0, 0                                     \
    }

typedef struct ls_batch {
    int64_t count;                    /* of items; 0 when the epoch has ended */
    ls_tensor *fields[LS_MAX_FIELDS]; /* (count, shape of the field) */
} ls_batch;

/* The dataset must outlive the loader. */
LS_API LS_MUST_CHECK ls_status ls_loader_new(ls_loader **out,
                                             const ls_dataset *dataset,
                                             const ls_loader_options *options);

/*
 * Begins to read these items (copied), as they are in that epoch, even if what
 * was begun before has not ended.
 */
LS_API LS_MUST_CHECK ls_status ls_loader_begin(ls_loader *loader,
                                               uint64_t epoch,
                                               const int64_t *indices,
                                               size_t n);

/*
 * The next batch. Its tensors belong to the loader and are overwritten after
 * the next call, so reset a tape that uses them before that. batch->count is 0
 * after the last. If a batch cannot be read, the call that would return it
 * fails, as do all others until the next ls_loader_begin.
 */
LS_API LS_MUST_CHECK ls_status ls_loader_next(ls_loader *loader,
                                              ls_batch *batch);

/* Since ls_loader_begin. */
typedef struct ls_loader_stats {
    int64_t batches;     /* that ls_loader_next has returned */
    double wait_seconds; /* for which it has waited, or read itself */
} ls_loader_stats;

/* How long the caller has waited for data; zeros if loader is NULL. */
LS_API void ls_loader_get_stats(const ls_loader *loader,
                                ls_loader_stats *stats);

/* Stops reading, frees it and sets *loader to NULL. Accepts NULLs. */
LS_API void ls_loader_free(ls_loader **loader);

/* ---- tokens -------------------------------------------------------------- */

/* A long sequence of tokens, of which language models see pieces. */
typedef struct ls_tokens ls_tokens;

typedef enum ls_token_format {
    /*
     * Detected: .u16 and .u32 are raw. An .npy array and a file of llm.c are
     * known by their first bytes. A .bin that is neither is refused, as is any
     * other known format that is not text. The rest is text.
     */
    LS_TOKENS_BY_NAME,
    LS_TOKENS_TEXT, /* UTF-8 without zeros; each byte is a token, 0..255 */
    LS_TOKENS_LLMC, /* u16 or u32 behind a header of 1,024 bytes */
    LS_TOKENS_U16,  /* little endian */
    LS_TOKENS_U32,
    LS_TOKENS_BYTES, /* each byte is a token, whatever they are */
    LS_TOKENS_NPY    /* an array of u1, u2, u4, i4 or i8 with one dimension */
} ls_token_format;

/*
 * Maps a regular file, which must not change while it is open; or all files of
 * a pattern (`shards/part-*.bin`) or a folder, one after another in the order
 * of their names. They may be larger than memory. Text, arrays and files of
 * llm.c may be packed by gzip, or with libarchive by zstd, xz or bzip2; these
 * are unpacked into memory. LS_ERR_FORMAT: a header that is not llm.c's, a size
 * that does not fit, or bytes that are not text where text is expected. 64 MiB
 * of each file are checked. On success *out is the caller's. Local.
 */
LS_API LS_MUST_CHECK ls_status ls_tokens_new(ls_tokens **out, const char *path,
                                             ls_token_format format);

/*
 * Text of `count` bytes, generated from `seed`: sentences of a small language
 * whose words, grammar and few facts a model can learn.
 */
LS_API LS_MUST_CHECK ls_status ls_tokens_new_builtin(ls_tokens **out,
                                                     int64_t count,
                                                     uint64_t seed);

/* Frees them and sets *tokens to NULL. Accepts NULLs. */
LS_API void ls_tokens_free(ls_tokens **tokens);

/* How many there are. */
LS_API int64_t ls_tokens_count(const ls_tokens *tokens);

/* Whether they are the bytes of a text. */
LS_API bool ls_tokens_are_bytes(const ls_tokens *tokens);

/*
 * LS_ERR_FORMAT unless all are below `vocabulary`; names the first that is not.
 */
LS_API LS_MUST_CHECK ls_status ls_tokens_check(const ls_tokens *tokens,
                                               int64_t vocabulary);

/* Copies tokens begin..begin+n-1. */
LS_API LS_MUST_CHECK ls_status ls_tokens_read(const ls_tokens *tokens,
                                              int64_t begin, int64_t *out,
                                              size_t n);

/*
 * The pieces of a rank in a step: a pure function of these numbers. Row r
 * begins at a place drawn uniformly from [begin, end - length) by (seed, step,
 * rank * rows + r). So two ranks with 4 rows see the pieces of one rank with 8.
 */
typedef struct ls_token_batch {
    size_t struct_size; /* sizeof, or 0: as in 0.1 (docs/reference/abi.md) */
    int64_t begin, end; /* of the tokens to draw from */
    int64_t rows, length;
    uint64_t seed, step;
    int rank;
} ls_token_batch;

/*
 * Writes (rows, length) tokens to `inputs`, and those one position later to
 * `targets`. LS_ERR_ARGUMENT unless 0 <= begin <= end <= the number of tokens,
 * and end - begin exceeds the length.
 */
LS_API LS_MUST_CHECK ls_status ls_tokens_batch(const ls_tokens *tokens,
                                               const ls_token_batch *batch,
                                               int64_t *inputs,
                                               int64_t *targets);

#ifdef __cplusplus
}
#endif

#endif
