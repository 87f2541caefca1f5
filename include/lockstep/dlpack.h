/*
 * Tensors of other libraries and for them, without a copy: DLPack, of version
 * 1.x, whose DLManagedTensorVersioned NumPy, PyTorch, JAX and others hand out
 * and take.
 *
 * This header declares only the name of DLPack's struct, so that it can be
 * included before or after DLPack's own <dlpack/dlpack.h>, and without it.
 */
#ifndef LOCKSTEP_DLPACK_H
#define LOCKSTEP_DLPACK_H

#include "lockstep/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

struct DLManagedTensorVersioned;

/*
 * A tensor over the memory of another library's. On success the tensor owns
 * `managed`, whose deleter is called once, when the last tensor over the memory
 * is freed. After an error it is still the caller's to delete.
 *
 *     LS_ERR_UNSUPPORTED   not of version 1.x, not in the memory of the CPU, or
 *                          read-only (a tensor can be written)
 *     LS_ERR_DTYPE         of a type that no tensor has, or of several lanes
 *     LS_ERR_ARGUMENT      too many dimensions, a stride below 0, or elements
 *                          that are not aligned to their size
 */
LS_API LS_MUST_CHECK ls_status ls_tensor_from_dlpack(
    ls_tensor **out, struct DLManagedTensorVersioned *managed);

/*
 * The tensor's memory for another library, which calls (*out)->deleter when it
 * needs it no more. The memory stays until then, even if the tensor is freed
 * first. Parameters must not be moved while it has them (see ls_tensor_map).
 */
LS_API LS_MUST_CHECK ls_status
ls_tensor_to_dlpack(ls_tensor *tensor, struct DLManagedTensorVersioned **out);

/*
 * DLPack's structs under other names, for programs without its header. A
 * pointer to an ls_dlpack is one to a DLManagedTensorVersioned after a cast.
 */
typedef struct ls_dlpack_tensor {
    void *data;          /* may be NULL for an empty tensor */
    int32_t device_type; /* LS_DLPACK_CPU */
    int32_t device_id;   /* 0 */
    int32_t ndim;
    uint8_t type_code;    /* LS_DLPACK_INT, ... */
    uint8_t type_bits;    /* of an element */
    uint16_t type_lanes;  /* 1 */
    int64_t *shape;       /* ndim extents */
    int64_t *strides;     /* in elements; NULL: row-major */
    uint64_t byte_offset; /* of the first element from data */
} ls_dlpack_tensor;

typedef struct ls_dlpack {
    uint32_t major, minor; /* 1, 0 */
    void *manager_ctx;     /* of the library that made it */
    void (*deleter)(struct DLManagedTensorVersioned *self); /* or NULL */
    uint64_t flags;                                         /* a sum */
    ls_dlpack_tensor tensor;
} ls_dlpack;

#define LS_DLPACK_CPU       1 /* device_type */
#define LS_DLPACK_INT       0 /* type_code */
#define LS_DLPACK_UINT      1
#define LS_DLPACK_FLOAT     2
#define LS_DLPACK_BFLOAT    4
#define LS_DLPACK_READ_ONLY 1 /* flags */
#define LS_DLPACK_IS_COPIED 2

#ifdef __cplusplus
}
#endif

#endif
