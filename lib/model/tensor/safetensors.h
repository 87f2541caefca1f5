/*
 * The common part of reading and writing safetensors files.
 *
 *     u64, little endian   n, bytes of the header
 *     n bytes              JSON: {"name": {"dtype": "F32", "shape": [2, 3],
 *                          "data_offsets": [begin, end]}, ...} and optionally
 *                          "__metadata__": {"key": "value", ...}
 *     the rest             the elements; offsets count from here, cover all
 *                          of it, and do not overlap
 */
#ifndef LS_MODEL_TENSOR_SAFETENSORS_H
#define LS_MODEL_TENSOR_SAFETENSORS_H

#include <ctype.h>

#include "base/atomic_file.h"
#include "base/partition.h"
#include "lockstep/tensor.h"

struct json_t;

/* The header's entry for one tensor. */
typedef struct lsi_safetensors_entry {
    const char *name;  /* in the header */
    const char *dtype; /* in the header */
    int ndim;
    int64_t shape[LS_MAX_DIMS]; /* of the first LS_MAX_DIMS dimensions */
    uint64_t begin, end;
    size_t shard; /* number in `shards`, for an index */
} lsi_safetensors_entry;

typedef struct lsi_safetensors_file {
    const char *path;
    const char *prefix;  /* prefix of the names of tensors in the file */
    const char *outside; /* the name without that prefix; or NULL */
    bool widens;         /* bf16 and f16 may fill tensors of f32 */
    bool matrices;       /* as in lsi_safetensors_save_matrices */
    int fd;
    uint64_t data_begin, data_size;
    struct json_t *header;
    lsi_safetensors_entry *entries; /* sorted by (begin, end) */
    size_t n_entries;
    /* For an index: the files that it names, which own their paths. */
    struct lsi_safetensors_file *shards;
    size_t n_shards;
    char *own_path;
} lsi_safetensors_file;

/*
 * On success the file is the caller's to close; it refers to the path. A name
 * that ends with ".index.json" is that of an index, as Hugging Face's libraries
 * write it: {"weight_map": {"tensor": "file next to it", ...}}. Its tensors are
 * then read as if they were in one file, without metadata.
 */
ls_status lsi_safetensors_open(lsi_safetensors_file *file, const char *path);
void lsi_safetensors_close(lsi_safetensors_file *file);

/* For an index (safetensors_index.c). */
#define LSI_SAFETENSORS_INDEX ".index.json"
ls_status lsi_safetensors_open_index(lsi_safetensors_file *file,
                                     const char *path);
void lsi_safetensors_close_shards(lsi_safetensors_file *file);

/* Reads bytes of an entry's tensor, from an offset inside it. */
ls_status lsi_safetensors_read(const lsi_safetensors_file *file,
                               const lsi_safetensors_entry *entry,
                               uint64_t offset, void *out, size_t bytes);

/* The tensor of that name, after the file's prefix; NULL if not found. */
const lsi_safetensors_entry *
lsi_safetensors_find(const lsi_safetensors_file *file, const char *name);

/* Sets the prefix if the file has `first` only with it. */
void lsi_safetensors_try_prefix(lsi_safetensors_file *file, const char *prefix,
                                const char *first);

/* Checks that the file has the tensors, in shapes and types that fit. */
ls_status lsi_safetensors_check(const lsi_safetensors_file *file,
                                const ls_named_tensor *tensors, size_t n);

/* The type of an entry that fits a tensor of this type. */
ls_dtype lsi_safetensors_stored(const lsi_safetensors_entry *entry,
                                ls_dtype wanted);

/* Some elements of a tensor, in its type and in the order of its storage. */
typedef ls_status lsi_safetensors_piece_fn(void *context, lsi_range elements,
                                           const void *values);

/*
 * Passes at least the needed elements of a tensor that lsi_safetensors_check
 * has accepted, some MiB at a time. The tensor is a storage, or a view of all
 * of one; its values are not touched.
 */
ls_status lsi_safetensors_pieces(const lsi_safetensors_file *file,
                                 const ls_named_tensor *wanted,
                                 lsi_range needed, lsi_safetensors_piece_fn *fn,
                                 void *context);

/* As ls_safetensors_load. A divided parameter gets this process's part. */
ls_status lsi_safetensors_fill(const lsi_safetensors_file *file,
                               const ls_named_tensor *tensors, size_t n);

/* The metadata's text for a key, while the file is open; NULL if missing. */
const char *lsi_safetensors_text(const lsi_safetensors_file *file,
                                 const char *key);

/* As ls_safetensors_save; *sum is of the file. */
ls_status lsi_safetensors_save(const char *path, const ls_named_tensor *tensors,
                               size_t n, const char *const *metadata,
                               lsi_file_sum *sum);

/*
 * As ls_safetensors_save; but a tensor of more than two dimensions is a matrix
 * in the file, whose rows are all of its dimensions but the last. So the rows
 * of a matrix can be written, and read, in another order through a view.
 */
ls_status lsi_safetensors_save_matrices(const char *path,
                                        const ls_named_tensor *tensors,
                                        size_t n, const char *const *metadata);

/* The shape of a tensor in a file, as a matrix if requested. */
typedef struct lsi_safetensors_shape {
    int ndim;
    int64_t extents[LS_MAX_DIMS];
} lsi_safetensors_shape;

lsi_safetensors_shape lsi_safetensors_shape_of(const ls_tensor *tensor,
                                               bool matrices);

#define LSI_SAFETENSORS_METADATA "__metadata__"

enum {
    LSI_SAFETENSORS_PREFIX = 8,             /* bytes of n */
    LSI_SAFETENSORS_MAX_HEADER = 100000000, /* as other readers have it */
};

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#    error "safetensors need a little-endian processor"
#endif

/* "BF16" for LS_BF16: our names in capitals. */
typedef struct lsi_safetensors_dtype {
    char text[8];
} lsi_safetensors_dtype;

static inline lsi_safetensors_dtype lsi_safetensors_dtype_of(ls_dtype dtype)
{
    const char *name = ls_dtype_name(dtype);
    lsi_safetensors_dtype out = {""};
    for (size_t i = 0; name[i] != '\0' && i + 1 < sizeof out.text; i++)
        out.text[i] = (char)toupper((unsigned char)name[i]);
    return out;
}

#endif
