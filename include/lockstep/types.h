/*
 * Element types and reductions, shared by tensors and collectives.
 */
#ifndef LOCKSTEP_TYPES_H
#define LOCKSTEP_TYPES_H

#include <stddef.h>
#include <stdint.h>

#include "lockstep/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Element types. Of bool any value but 0 is true; what is computed is 0 or 1.
 * Tensors cannot be bool, nor f64 or i8.
 */
typedef enum ls_dtype {
    LS_F32 = 0,
    LS_F64 = 1,
    LS_F16 = 2,
    LS_BF16 = 3,
    LS_I8 = 4,
    LS_U8 = 5,
    LS_I32 = 6,
    LS_I64 = 7,
    LS_BOOL = 8
} ls_dtype;

#define LS_DTYPE_COUNT 9

/*
 * Reductions. Half types are summed in f32 and rounded once at the end.
 * LS_REDUCE_AVG divides the sum by the world size; it is defined for floating
 * types only, and those of bits for integers and bool only. Of bool the sum and
 * the maximum are an or, the product and the minimum an and.
 */
typedef enum ls_reduce_op {
    LS_REDUCE_SUM = 0,
    LS_REDUCE_AVG = 1,
    LS_REDUCE_MIN = 2,
    LS_REDUCE_MAX = 3,
    LS_REDUCE_PROD = 4,
    LS_REDUCE_BAND = 5,
    LS_REDUCE_BOR = 6,
    LS_REDUCE_BXOR = 7
} ls_reduce_op;

#define LS_REDUCE_OP_COUNT 8

/* Bytes of one element; 0 for an invalid ls_dtype. */
LS_API size_t ls_dtype_size(ls_dtype dtype);

/* "f32", "bf16", ...; "unknown" for an invalid ls_dtype. */
LS_API const char *ls_dtype_name(ls_dtype dtype);

/* "sum", "avg", ...; "unknown" for an invalid ls_reduce_op. */
LS_API const char *ls_reduce_op_name(ls_reduce_op op);

/*
 * The type with that name, or with one that C, NumPy, PyTorch and NCCL use:
 * "float32", "fp32", "float", "bfloat16", "half", "int8", ... LS_ERR_ARGUMENT
 * lists the names of ls_dtype_name.
 */
LS_API LS_MUST_CHECK ls_status ls_dtype_parse(const char *name, ls_dtype *out);

/* The reduction with that name. LS_ERR_ARGUMENT lists the valid names. */
LS_API LS_MUST_CHECK ls_status ls_reduce_op_parse(const char *name,
                                                  ls_reduce_op *out);

#ifdef __cplusplus
}
#endif

#endif
