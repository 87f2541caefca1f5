/*
 * Tensors: shape, strides, type and a reference-counted storage.
 *
 * A tensor is a view of a storage; several tensors may share one. Tensors are
 * reference counted: the function that makes one hands the caller one
 * reference, ls_tensor_free gives it back. A tensor may be used by one thread
 * at a time.
 *
 * Dimensions are named outermost first; a convolution's input is (N, C, H, W).
 */
#ifndef LOCKSTEP_TENSOR_H
#define LOCKSTEP_TENSOR_H

#include <stdbool.h>

#include "lockstep/status.h"
#include "lockstep/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_tensor ls_tensor;

#define LS_MAX_DIMS 6

/* Types a tensor may have: f32, bf16, f16, i32, i64, u8. */

/*
 * A new, dense, row-major tensor with undefined contents. ndim may be 0 (one
 * element) and any extent may be 0. On success *out is the caller's.
 */
LS_API LS_MUST_CHECK ls_status ls_tensor_new(ls_tensor **out, ls_dtype dtype,
                                             int ndim, const int64_t *shape);

/* As ls_tensor_new, filled with zeros. */
LS_API LS_MUST_CHECK ls_status ls_tensor_zeros(ls_tensor **out, ls_dtype dtype,
                                               int ndim, const int64_t *shape);

/* How memory of the caller's is wrapped. */
typedef struct ls_wrap_options {
    size_t struct_size; /* sizeof, or 0: as in 0.1 (docs/reference/abi.md) */
    /*
     * ndim distances from one element to the next, in elements; NULL: dense and
     * row-major. 0 repeats an element, which must not be written then; one
     * below 0 is LS_ERR_ARGUMENT.
     */
    const int64_t *strides;
    /*
     * Called with context once, when the last tensor over the memory is freed,
     * by the thread that frees it; or NULL.
     */
    void (*release)(void *context);
    void *context;
} ls_wrap_options;

/* Row-major and without gaps; nobody is told of its end. */
#define LS_WRAP_OPTIONS_INIT                                                   \
    {                                                                          \
        sizeof(ls_wrap_options), NULL, NULL, NULL                              \
    }

/*
 * A tensor over memory of the caller's, aligned to an element, which must
 * outlive it and all its views: until options->release is called, if there is
 * one. After an error it is not called. NULL for the options means the
 * defaults.
 */
LS_API LS_MUST_CHECK ls_status ls_tensor_wrap(ls_tensor **out, void *data,
                                              ls_dtype dtype, int ndim,
                                              const int64_t *shape,
                                              const ls_wrap_options *options);

/* One more reference to the same tensor; returns its argument. */
LS_API ls_tensor *ls_tensor_retain(ls_tensor *tensor);

/* Gives back a reference and sets *tensor to NULL. Accepts NULLs. */
LS_API void ls_tensor_free(ls_tensor **tensor);

/* Element type, number of dimensions, and their sizes (ndim of them). */
LS_API ls_dtype ls_tensor_dtype(const ls_tensor *tensor);
LS_API int ls_tensor_ndim(const ls_tensor *tensor);
LS_API const int64_t *ls_tensor_shape(const ls_tensor *tensor);
/* In elements, outermost first. */
LS_API const int64_t *ls_tensor_strides(const ls_tensor *tensor);
/* Elements in all; and whether they lie in row-major order without gaps. */
LS_API int64_t ls_tensor_count(const ls_tensor *tensor);
LS_API bool ls_tensor_is_contiguous(const ls_tensor *tensor);

/*
 * The tensor's own memory, to read and to write: *out is the first element, and
 * the others lie as the strides say, in row-major order if
 * ls_tensor_is_contiguous. The result of an operation may have to be reordered
 * first, which takes memory and can fail; LS_ERR_STATE for a parameter before
 * ls_params_allocate. *out stays valid as long as the tensor, or until
 * ls_ddp_new moves parameters (parallel.h).
 */
LS_API LS_MUST_CHECK ls_status ls_tensor_map(ls_tensor *tensor, void **out);

/* The same of a tensor of that type; LS_ERR_DTYPE for any other. */
LS_API LS_MUST_CHECK ls_status ls_tensor_map_f32(ls_tensor *tensor,
                                                 float **out);
LS_API LS_MUST_CHECK ls_status ls_tensor_map_i64(ls_tensor *tensor,
                                                 int64_t **out);

/* ---- views: no bytes move, the storage is shared ------------------------- */

/* The same elements in another shape; one extent may be -1. Contiguous only. */
LS_API LS_MUST_CHECK ls_status ls_tensor_view(ls_tensor *tensor, int ndim,
                                              const int64_t *shape,
                                              ls_tensor **out);

/* Elements begin..end-1 of one dimension. */
LS_API LS_MUST_CHECK ls_status ls_tensor_narrow(ls_tensor *tensor, int dim,
                                                int64_t begin, int64_t end,
                                                ls_tensor **out);

/* Two dimensions exchanged. */
LS_API LS_MUST_CHECK ls_status ls_tensor_transpose(ls_tensor *tensor, int a,
                                                   int b, ls_tensor **out);

/* ---- contents ------------------------------------------------------------ */

/*
 * dst = src, converting the type; same shape, any strides. If they overlap, as
 * if src had been read first.
 */
LS_API LS_MUST_CHECK ls_status ls_tensor_copy(ls_tensor *dst,
                                              const ls_tensor *src);

/* A new dense, row-major tensor with the same elements, the caller's. */
LS_API LS_MUST_CHECK ls_status ls_tensor_clone(const ls_tensor *tensor,
                                               ls_tensor **out);

/*
 * One more reference to the tensor if it is contiguous, else as
 * ls_tensor_clone. The caller frees *out in either case.
 */
LS_API LS_MUST_CHECK ls_status ls_tensor_contiguous(ls_tensor *tensor,
                                                    ls_tensor **out);

/*
 * The tensor as text, to look at: type and shape, and on the next lines its
 * elements, with six digits. Of more than 1000 elements the first and last 3 of
 * each longer dimension are shown. Writes at most `size` bytes with the 0 at
 * the end, and to *length, unless NULL, the length that the whole text has.
 */
LS_API LS_MUST_CHECK ls_status ls_tensor_format(const ls_tensor *tensor,
                                                char *text, size_t size,
                                                size_t *length);

/*
 * Every element = value, rounded to the tensor's type; LS_ERR_ARGUMENT if that
 * is an integer type that cannot hold it.
 */
LS_API LS_MUST_CHECK ls_status ls_tensor_fill(ls_tensor *tensor, double value);

/* The one element of a tensor with one element, as a double. */
LS_API LS_MUST_CHECK ls_status ls_tensor_item(const ls_tensor *tensor,
                                              double *out);

/* ---- safetensors --------------------------------------------------------- */

/*
 * A name and the tensor that goes with it. One list serves to save and to load,
 * so the tensor is not const; saving only reads it. ls_params_save (params.h)
 * saves a const set.
 */
typedef struct ls_named_tensor {
    const char *name;
    ls_tensor *tensor;
} ls_named_tensor;

/*
 * Writes a safetensors file atomically: to a temporary file in the same folder,
 * synced, then renamed. So `path` is either the old file or the complete new
 * one. The new file has the permissions of the old one, and its owner and group
 * where the process may set them; a symbolic link stays one. Temporary files of
 * killed saves are removed. Missing folders above `path` are created. metadata
 * is NULL or a NULL-terminated array of key, value, key, value, ...
 */
LS_API LS_MUST_CHECK ls_status
ls_safetensors_save(const char *path, const ls_named_tensor *tensors, size_t n,
                    const char *const *metadata);

/*
 * Fills existing tensors from a file by name. Every one must be there with the
 * same shape and type; the first that differs is named in the error. Nothing
 * is written unless all fit. Tensors of the file that were not asked for are
 * ignored.
 */
LS_API LS_MUST_CHECK ls_status
ls_safetensors_load(const char *path, const ls_named_tensor *tensors, size_t n);

/*
 * A safetensors file that is read without knowing the names in it:
 *
 *     ls_safetensors *file = NULL;
 *     ls_status status = ls_safetensors_open(&file, "model.safetensors");
 *     for (size_t i = 0; i < ls_safetensors_count(file); i++) {
 *         ls_stored_tensor info = {.struct_size = sizeof(info)};
 *         status = ls_safetensors_info(file, i, &info);
 *         ...
 *     }
 *     ls_safetensors_close(&file);
 *
 * Several threads may read one open file.
 */
typedef struct ls_safetensors ls_safetensors;

/*
 * Opens a file, or the index of several (a name that ends with ".index.json",
 * as Hugging Face's libraries write it), and checks its whole header.
 * LS_ERR_FORMAT names the tensor where it is damaged, LS_ERR_IO is a file that
 * cannot be read. On success *out is the caller's, closed by
 * ls_safetensors_close.
 */
LS_API LS_MUST_CHECK ls_status ls_safetensors_open(ls_safetensors **out,
                                                   const char *path);

/* Closes the file and sets *file to NULL. Accepts NULLs. */
LS_API void ls_safetensors_close(ls_safetensors **file);

/* The number of tensors. */
LS_API size_t ls_safetensors_count(const ls_safetensors *file);

/*
 * Key, value, key, value, ..., NULL, as ls_safetensors_save takes them; the
 * file's until it is closed. An index has none.
 */
LS_API const char *const *ls_safetensors_metadata(const ls_safetensors *file);

/* A tensor of a file. Pointers are to memory of the file until it is closed. */
typedef struct ls_stored_tensor {
    size_t struct_size; /* sizeof, or 0: as in 0.1 (docs/reference/abi.md) */
    const char *name;
    const char *type;     /* as files call it: "F32", "BF16", "I8", ... */
    const int64_t *shape; /* ndim extents; NULL if ndim is above LS_MAX_DIMS */
    uint64_t bytes;       /* of its elements in the file */
    int ndim;
    ls_dtype dtype; /* the same as `type`, if readable */
    bool readable;  /* a tensor can have this type and number of dimensions */
} ls_stored_tensor;

/*
 * Describes tensor 0..count-1, in the order of their bytes; those of an index
 * in its order. Set out->struct_size before the call.
 */
LS_API LS_MUST_CHECK ls_status ls_safetensors_info(const ls_safetensors *file,
                                                   size_t index,
                                                   ls_stored_tensor *out);

/*
 * Reads a tensor into a new one of the file's type, which is the caller's.
 * LS_ERR_DTYPE or LS_ERR_SHAPE if it is not readable.
 */
LS_API LS_MUST_CHECK ls_status ls_safetensors_read(const ls_safetensors *file,
                                                   size_t index,
                                                   ls_tensor **out);

#ifdef __cplusplus
}
#endif

#endif
