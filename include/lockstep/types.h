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
 * X(name, value, text, size in bytes). Of bool any value but 0 is true; what is
 * computed is 0 or 1. Tensors cannot be bool, nor f64 or i8.
 */
#define LS_DTYPE_LIST(X)                                                       \
    X(F32, 0, "f32", 4)                                                        \
    X(F64, 1, "f64", 8)                                                        \
    X(F16, 2, "f16", 2)                                                        \
    X(BF16, 3, "bf16", 2)                                                      \
    X(I8, 4, "i8", 1)                                                          \
    X(U8, 5, "u8", 1)                                                          \
    X(I32, 6, "i32", 4)                                                        \
    X(I64, 7, "i64", 8)                                                        \
    X(BOOL, 8, "bool", 1)

typedef enum ls_dtype {
#define X(name, value, text, size) LS_##name = (value),
    LS_DTYPE_LIST(X)
#undef X
} ls_dtype;

#define LS_DTYPE_COUNT 9

/*
 * Reductions. Half types are summed in f32 and rounded once at the end.
 * LS_REDUCE_AVG divides the sum by the world size; it is defined for floating
 * types only, and those of bits for integers and bool only. Of bool the sum and
 * the maximum are an or, the product and the minimum an and.
 */
#define LS_REDUCE_OP_LIST(X)                                                   \
    X(SUM, 0, "sum")                                                           \
    X(AVG, 1, "avg")                                                           \
    X(MIN, 2, "min")                                                           \
    X(MAX, 3, "max")                                                           \
    X(PROD, 4, "prod")                                                         \
    X(BAND, 5, "band")                                                         \
    X(BOR, 6, "bor")                                                           \
    X(BXOR, 7, "bxor")

typedef enum ls_reduce_op {
#define X(name, value, text) LS_REDUCE_##name = (value),
    LS_REDUCE_OP_LIST(X)
#undef X
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
