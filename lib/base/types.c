/*
 * Names and sizes of element types and reductions, from the lists in types.h.
 */
#include "lockstep/types.h"

#include <string.h>

#include "base/error.h"

size_t ls_dtype_size(ls_dtype dtype)
{
    switch (dtype) {
#define X(name, value, text, size)                                             \
    case LS_##name:                                                            \
        return size;
        LS_DTYPE_LIST(X)
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
        LS_DTYPE_LIST(X)
#undef X
    }
    return "unknown";
}

const char *ls_reduce_op_name(ls_reduce_op op)
{
    switch (op) {
#define X(name, value, text)                                                   \
    case LS_##name:                                                            \
        return text;
        LS_REDUCE_OP_LIST(X)
#undef X
    }
    return "unknown";
}

ls_status ls_dtype_parse(const char *name, ls_dtype *out)
{
    LS_NEED(name, out);
#define X(name_, value, text, size)                                            \
    if (strcmp(name, text) == 0) {                                             \
        *out = LS_##name_;                                                     \
        return LS_OK;                                                          \
    }
    LS_DTYPE_LIST(X)
#undef X
#define X(name_, value, text, size) " " text
    return lsi_fail(LS_ERR_ARGUMENT, "unknown type \"%s\"; there are:%s", name,
                    LS_DTYPE_LIST(X));
#undef X
}

ls_status ls_reduce_op_parse(const char *name, ls_reduce_op *out)
{
    LS_NEED(name, out);
#define X(name_, value, text)                                                  \
    if (strcmp(name, text) == 0) {                                             \
        *out = LS_##name_;                                                     \
        return LS_OK;                                                          \
    }
    LS_REDUCE_OP_LIST(X)
#undef X
#define X(name_, value, text) " " text
    return lsi_fail(LS_ERR_ARGUMENT, "unknown reduction \"%s\"; there are:%s",
                    name, LS_REDUCE_OP_LIST(X));
#undef X
}
