#include "comm/algo/points.h"

#include <string.h>

#include "kernels/kernels.h"

static bool is_half(ls_dtype dtype)
{
    return dtype == LS_F16 || dtype == LS_BF16;
}

ls_dtype lsi_wide_dtype(const lsi_op *op)
{
    return is_half(op->call.dtype) ? LS_F32 : op->call.dtype;
}

size_t lsi_wide_bytes(const lsi_op *op, size_t elements)
{
    return elements * ls_dtype_size(lsi_wide_dtype(op));
}

void lsi_widen(const lsi_op *op, void *to, const void *from, size_t elements)
{
    if (to == from || elements == 0)
        return;
    if (is_half(op->call.dtype))
        lsi_kernels_get()->convert(to, LS_F32, from, op->call.dtype, elements);
    else
        memcpy(to, from, elements * op->item);
}

void lsi_accumulate(const lsi_op *op, void *acc, const void *more,
                    size_t elements)
{
    const void *srcs[2] = {acc, more};
    const ls_reduce_op redop =
        op->call.redop == LS_AVG ? LS_SUM : op->call.redop;
    lsi_kernels_get()->reduce(acc, srcs, 2, elements, lsi_wide_dtype(op), redop,
                              1.0);
}

void lsi_narrow(const lsi_op *op, void *to, void *from, size_t elements)
{
    const void *src = from;
    if (elements == 0)
        return;
    if (op->call.redop == LS_AVG)
        lsi_kernels_get()->reduce(from, &src, 1, elements, lsi_wide_dtype(op),
                                  LS_SUM, 1.0 / op->group->size);
    if (is_half(op->call.dtype))
        lsi_kernels_get()->convert(to, op->call.dtype, from, LS_F32, elements);
    else if (to != from)
        memcpy(to, from, elements * op->item);
}

size_t lsi_largest_block(const lsi_op *op)
{
    return lsi_range_size(lsi_block_of(op, 0));
}
