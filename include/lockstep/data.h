/*
 * Datasets, samplers and loaders.
 */
#ifndef LOCKSTEP_DATA_H
#define LOCKSTEP_DATA_H

#include "lockstep/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- image datasets ------------------------------------------------------ */

typedef struct ls_dataset ls_dataset;

typedef enum ls_split { LS_SPLIT_TRAIN, LS_SPLIT_TEST } ls_split;

/*
 * CIFAR-100 in the published binary layout: records of 3,074 bytes (coarse
 * label, fine label, 3,072 planar RGB bytes). `path` is a folder that holds
 * train.bin and test.bin (or holds cifar-100-binary/), or a .tar, .tar.gz or
 * .tar.zst of it. Files in a folder are mapped and must not change while the
 * dataset is open; every rank reads an archive into its own memory, so neither
 * can be a pipe. A size that is not a multiple of the record size, or a label
 * above 99, is LS_ERR_FORMAT with the file and the record. Local.
 */
LS_API ls_status ls_dataset_new_cifar100(ls_dataset **out, const char *path,
                                         ls_split split);

/*
 * A set of `count` images of the same shape, generated from `seed`: each of the
 * 100 classes is a pattern with random noise, shifts and brightness, so that a
 * network can learn it and generalise. Train and test differ.
 */
LS_API ls_status ls_dataset_new_synthetic(ls_dataset **out, int64_t count,
                                          uint64_t seed, ls_split split);

/* Frees it and sets *dataset to NULL. Accepts NULLs. */
LS_API void ls_dataset_free(ls_dataset **dataset);

/* The number of samples, and the number of classes of the labels. */
LS_API int64_t ls_dataset_count(const ls_dataset *dataset);
LS_API int64_t ls_dataset_classes(const ls_dataset *dataset);

/* The label of a sample; -1 unless 0 <= index < count. */
LS_API int64_t ls_dataset_label(const ls_dataset *dataset, int64_t index);

/*
 * Writes the samples indices[0..n-1], normalised per channel, to images
 * (n, 3, 32, 32) f32 and labels (n) i64, row-major memory of the caller's.
 */
LS_API ls_status ls_dataset_read(const ls_dataset *dataset,
                                 const int64_t *indices, int64_t n,
                                 float *images, int64_t *labels);

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
    int64_t count;
    uint64_t seed;
    uint64_t epoch;
    int rank, size;
    bool shuffle;
    bool pad;
} ls_sampler;

/* How many samples the rank gets. */
LS_API int64_t ls_sampler_count(const ls_sampler *sampler);

/* Writes them: indices has room for ls_sampler_count elements. */
LS_API ls_status ls_sampler_fill(const ls_sampler *sampler, int64_t *indices);

/* ---- loaders ------------------------------------------------------------- */

/*
 * Reads batches ahead on a thread of its own. The order is that of the
 * indices; the last batch may be smaller.
 */
typedef struct ls_loader ls_loader;

typedef struct ls_batch {
    ls_tensor *images; /* (n, 3, 32, 32) f32 */
    ls_tensor *labels; /* (n) i64 */
    int64_t count;     /* n; 0 when the epoch has ended */
} ls_batch;

/*
 * prefetch is the number of batches read ahead; 0 reads in the caller's
 * thread. The dataset must outlive the loader.
 */
LS_API ls_status ls_loader_new(ls_loader **out, const ls_dataset *dataset,
                               int64_t batch_size, int prefetch);

/*
 * Begins an epoch over these indices (copied), even if the previous one has
 * not ended.
 */
LS_API ls_status ls_loader_begin(ls_loader *loader, const int64_t *indices,
                                 int64_t n);

/*
 * The next batch. Its tensors belong to the loader and are overwritten after
 * the next call, so reset a tape that uses them before that. batch->count is 0
 * after the last. If a batch cannot be read, the call that would return it
 * fails, as do all others until the next ls_loader_begin.
 */
LS_API ls_status ls_loader_next(ls_loader *loader, ls_batch *batch);

/* Stops reading, frees it and sets *loader to NULL. Accepts NULLs. */
LS_API void ls_loader_free(ls_loader **loader);

/* ---- tokens -------------------------------------------------------------- */

/* A long sequence of tokens, of which language models see pieces. */
typedef struct ls_tokens ls_tokens;

typedef enum ls_token_format {
    /*
     * By the name: .u16 and .u32 are raw; .bin is what llm.c writes, u16 or
     * u32 behind a header of 1,024 bytes; anything else is text.
     */
    LS_TOKENS_BY_NAME,
    LS_TOKENS_TEXT, /* each byte is a token, 0..255 */
    LS_TOKENS_LLMC,
    LS_TOKENS_U16, /* little endian */
    LS_TOKENS_U32
} ls_token_format;

/*
 * Maps a regular file, which must not change while it is open. A header that is
 * not llm.c's, or a size that does not fit, is LS_ERR_FORMAT. On success *out
 * is the caller's. Local.
 */
LS_API ls_status ls_tokens_new(ls_tokens **out, const char *path,
                               ls_token_format format);

/*
 * Text of `count` bytes, generated from `seed`: sentences of a small language
 * whose words, grammar and few facts a model can learn.
 */
LS_API ls_status ls_tokens_new_builtin(ls_tokens **out, int64_t count,
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
LS_API ls_status ls_tokens_check(const ls_tokens *tokens, int64_t vocabulary);

/* Copies tokens begin..begin+n-1. */
LS_API ls_status ls_tokens_read(const ls_tokens *tokens, int64_t begin,
                                int64_t n, int64_t *out);

/*
 * Which pieces a rank sees in a step: a pure function of these numbers. Row r
 * begins at a place drawn uniformly from [begin, end - length) by (seed, step,
 * rank * rows + r), so that two ranks with 4 rows see what one with 8 does.
 */
typedef struct ls_token_batch {
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
LS_API ls_status ls_tokens_batch(const ls_tokens *tokens,
                                 const ls_token_batch *batch, int64_t *inputs,
                                 int64_t *targets);

#ifdef __cplusplus
}
#endif

#endif
