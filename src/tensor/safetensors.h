/*
 * What reading and writing safetensors files share.
 *
 *     u64, little endian   n, bytes of the header
 *     n bytes              JSON: {"name": {"dtype": "F32", "shape": [2, 3],
 *                          "data_offsets": [begin, end]}, ...} and optionally
 *                          "__metadata__": {"key": "value", ...}
 *     the rest             the elements; offsets count from here, cover all
 *                          of it, and do not overlap
 */
#ifndef LS_TENSOR_SAFETENSORS_H
#define LS_TENSOR_SAFETENSORS_H

#include <ctype.h>

#include "lockstep/tensor.h"
#include "tensor/atomic_file.h"

struct json_t;

/* What the header says about one tensor. */
typedef struct lsi_safetensors_entry {
    const char *name;  /* in the header */
    const char *dtype; /* likewise */
    int ndim;
    int64_t shape[LS_MAX_DIMS]; /* of the first LS_MAX_DIMS dimensions */
    uint64_t begin, end;
} lsi_safetensors_entry;

typedef struct lsi_safetensors_file {
    const char *path;
    const char *prefix; /* what the file puts before the names of tensors */
    int fd;
    uint64_t data_begin, data_size;
    struct json_t *header;
    lsi_safetensors_entry *entries; /* sorted by (begin, end) */
    size_t n_entries;
} lsi_safetensors_file;

/* On success the file is the caller's to close; it refers to the path. */
ls_status lsi_safetensors_open(lsi_safetensors_file *file, const char *path);
void lsi_safetensors_close(lsi_safetensors_file *file);

/* Bytes of an entry's tensor, from an offset that lies in it. */
ls_status lsi_safetensors_read(const lsi_safetensors_file *file,
                               const lsi_safetensors_entry *entry,
                               uint64_t offset, void *out, size_t bytes);

/* As ls_safetensors_load, also if the file puts the prefix before all names. */
ls_status lsi_safetensors_load_either(const char *path, const char *prefix,
                                      const ls_named_tensor *tensors, size_t n);

/* As ls_safetensors_save; *sum is of the file. */
ls_status lsi_safetensors_save(const char *path, const ls_named_tensor *tensors,
                               size_t n, const char *const *metadata,
                               lsi_file_sum *sum);

/*
 * The text that a file's metadata has for a key: *out is the caller's (free),
 * NULL if there is none.
 */
ls_status lsi_safetensors_metadata(const char *path, const char *key,
                                   char **out);

#define LSI_SAFETENSORS_METADATA "__metadata__"

enum {
    LSI_SAFETENSORS_PREFIX = 8,             /* bytes of n */
    LSI_SAFETENSORS_MAX_HEADER = 100000000, /* as other readers have it */
};

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#    error "elements are read and written as they lie in memory"
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
