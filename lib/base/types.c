/*
 * Names and sizes of element types and reductions, from lists.h.
 */
#include "lockstep/types.h"

#include <string.h>

#include "base/error.h"
#include "base/lists.h"

size_t ls_dtype_size(ls_dtype dtype)
{
    switch (dtype) {
#define X(name, value, text, size)                                             \
    case LS_##name:                                                            \
        return size;
        LSI_DTYPE_LIST(X)
#undef X
    }
    return 0;
}

const char *ls_dtype_name(ls_dtype dtype)
{
    switch (dtype) {
#define X(name, value, text, size)                                             \
    case LS_##name:                                                            \
        return text;
        LSI_DTYPE_LIST(X)
#undef X
    }
    return "unknown";
}

const char *ls_reduce_op_name(ls_reduce_op op)
{
    switch (op) {
#define X(name, value, text)                                                   \
    case LS_REDUCE_##name:                                                     \
        return text;
        LSI_REDUCE_OP_LIST(X)
#undef X
    }
    return "unknown";
}

/* Of C, NumPy, PyTorch and NCCL. */
static const struct {
    const char *name;
    ls_dtype dtype;
} other_names[] = {
    {"float32", LS_F32},   {"fp32", LS_F32}, {"float", LS_F32},
    {"float64", LS_F64},   {"fp64", LS_F64}, {"double", LS_F64},
    {"float16", LS_F16},   {"fp16", LS_F16}, {"half", LS_F16},
    {"bfloat16", LS_BF16}, {"int8", LS_I8},  {"uint8", LS_U8},
    {"int32", LS_I32},     {"int", LS_I32},  {"int64", LS_I64},
};

ls_status ls_dtype_parse(const char *name, ls_dtype *out)
{
    LS_NEED(name, out);
    for (size_t i = 0; i < sizeof(other_names) / sizeof(other_names[0]); i++) {
        if (strcmp(name, other_names[i].name) == 0) {
            *out = other_names[i].dtype;
            return LS_OK;
        }
    }
#define X(name_, value, text, size)                                            \
    if (strcmp(name, text) == 0) {                                             \
        *out = LS_##name_;                                                     \
        return LS_OK;                                                          \
    }
    LSI_DTYPE_LIST(X)
#undef X
#define X(name_, value, text, size) " " text
    return lsi_fail(LS_ERR_ARGUMENT, "unknown type '%s'; choose one of:%s",
                    name, LSI_DTYPE_LIST(X));
#undef X
}

ls_status ls_reduce_op_parse(const char *name, ls_reduce_op *out)
{
    LS_NEED(name, out);
#define X(name_, value, text)                                                  \
    if (strcmp(name, text) == 0) {                                             \
        *out = LS_REDUCE_##name_;                                              \
        return LS_OK;                                                          \
    }
    LSI_REDUCE_OP_LIST(X)
#undef X
#define X(name_, value, text) " " text
    return lsi_fail(LS_ERR_ARGUMENT, "unknown reduction '%s'; choose one of:%s",
                    name, LSI_REDUCE_OP_LIST(X));
#undef X
}
