/*
 * The rows of public enumerations, for their names and whatever else there is
 * one of for each. A row is X(NAME, value, text); the header has the enumerator
 * (tests/unit/base/test_lists.c compares both).
 */
#ifndef LS_BASE_LISTS_H
#define LS_BASE_LISTS_H

#define LSI_STATUS_LIST(X)                                                     \
    X(OK, 0, "success")                                                        \
    X(IN_PROGRESS, 1, "not finished yet")                                      \
    X(ERR_ARGUMENT, -1, "invalid argument")                                    \
    X(ERR_SHAPE, -2, "shapes do not match")                                    \
    X(ERR_DTYPE, -3, "unsupported or mismatched type")                         \
    X(ERR_MEMORY, -4, "out of memory")                                         \
    X(ERR_BUDGET, -5, "over the memory budget")                                \
    X(ERR_IO, -6, "input or output failed")                                    \
    X(ERR_FORMAT, -7, "malformed data")                                        \
    X(ERR_UNSUPPORTED, -8, "not supported here")                               \
    X(ERR_STATE, -9, "called in the wrong state")                              \
    X(ERR_SYSTEM, -10, "a system call failed")                                 \
    X(ERR_PEER_DEAD, -11, "a peer died")                                       \
    X(ERR_TIMEOUT, -12, "a peer did not arrive in time")                       \
    X(ERR_MISMATCH, -13, "ranks disagree about a collective call")             \
    X(ERR_NOT_FOUND, -14, "nothing found yet")                                 \
    X(ERR_ABORTED, -15, "a rank has aborted the group")                        \
    X(ERR_CORRUPT, -16, "copies of the same data differ")

/* With the bytes of an element. */
#define LSI_DTYPE_LIST(X)                                                      \
    X(F32, 0, "f32", 4)                                                        \
    X(F64, 1, "f64", 8)                                                        \
    X(F16, 2, "f16", 2)                                                        \
    X(BF16, 3, "bf16", 2)                                                      \
    X(I8, 4, "i8", 1)                                                          \
    X(U8, 5, "u8", 1)                                                          \
    X(I32, 6, "i32", 4)                                                        \
    X(I64, 7, "i64", 8)                                                        \
    X(BOOL, 8, "bool", 1)

#define LSI_REDUCE_OP_LIST(X)                                                  \
    X(SUM, 0, "sum")                                                           \
    X(AVG, 1, "avg")                                                           \
    X(MIN, 2, "min")                                                           \
    X(MAX, 3, "max")                                                           \
    X(PROD, 4, "prod")                                                         \
    X(BAND, 5, "band")                                                         \
    X(BOR, 6, "bor")                                                           \
    X(BXOR, 7, "bxor")

#define LSI_MEMORY_TAG_LIST(X)                                                 \
    X(PARAMETERS, 0, "parameters")                                             \
    X(GRADIENTS, 1, "gradients")                                               \
    X(STATE, 2, "optimizer state")                                             \
    X(ACTIVATIONS, 3, "activations")                                           \
    X(WORKSPACE, 4, "workspace")                                               \
    X(COMM, 5, "communication")                                                \
    X(DATA, 6, "data")                                                         \
    X(OTHER, 7, "other")                                                       \
    X(GATHERED, 8, "gathered weights")

#endif
