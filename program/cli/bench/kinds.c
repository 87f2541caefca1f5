#include "cli/bench/kinds.h"

#include <string.h>

#include "base/error.h"

static const ls_dtype all_types[] = {LS_F32, LS_F64, LS_F16, LS_BF16,
                                     LS_I8,  LS_U8,  LS_I32, LS_I64};
static const ls_reduce_op all_ops[] = {
    LS_REDUCE_SUM, LS_REDUCE_PROD, LS_REDUCE_MAX, LS_REDUCE_MIN, LS_REDUCE_AVG};

static bool is_all(const char *text)
{
    return strcmp(text, "all") == 0;
}

/* Integer types have no average. */
static bool has(ls_dtype dtype, ls_reduce_op op)
{
    const bool real = dtype == LS_F32 || dtype == LS_F64 || dtype == LS_F16 ||
                      dtype == LS_BF16;
    return real || op != LS_REDUCE_AVG;
}

static void add_ops(lsi_bench_kinds *out, ls_dtype dtype,
                    const ls_reduce_op *ops, size_t n, bool choose)
{
    for (size_t i = 0; i < n; i++)
        if (!choose || has(dtype, ops[i]))
            out->all[out->n++] = (lsi_bench_kind){dtype, ops[i]};
}

ls_status lsi_bench_kinds_parse(const char *dtype, const char *op, bool reduces,
                                lsi_bench_kinds *out)
{
    ls_dtype type = LS_F32;
    ls_reduce_op one = LS_REDUCE_SUM;
    const ls_dtype *types = all_types;
    const ls_reduce_op *ops = all_ops;
    size_t n_types = sizeof(all_types) / sizeof(all_types[0]);
    size_t n_ops = sizeof(all_ops) / sizeof(all_ops[0]);
    const bool choose = is_all(dtype) || is_all(op);
    if (!is_all(dtype)) {
        LS_TRY(ls_dtype_parse(dtype, &type));
        types = &type;
        n_types = 1;
    }
    if (!is_all(op))
        LS_TRY(ls_reduce_op_parse(op, &one));
    if (!is_all(op) || !reduces) {
        ops = &one;
        n_ops = 1;
    }
    out->n = 0;
    for (size_t i = 0; i < n_types; i++)
        add_ops(out, types[i], ops, n_ops, choose);
    if (out->n == 0)
        return lsi_fail(LS_ERR_ARGUMENT, "no element type supports --op %s",
                        op);
    return LS_OK;
}
