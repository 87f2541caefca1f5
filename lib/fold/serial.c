/* Folds and conversions on the calling thread; see serial.h. */
#include "fold/serial.h"

#include "fold/fold.h"

void lsi_serial_reduce(void *dst, const void *const *srcs, int n_srcs, size_t n,
                       ls_dtype dtype, ls_reduce_op op, double factor)
{
    lsi_fold_get()->reduce(dst, srcs, n_srcs, n, dtype, op, factor);
}

void lsi_serial_convert(void *dst, ls_dtype dst_dtype, const void *src,
                        ls_dtype src_dtype, size_t n)
{
    lsi_fold_get()->convert(dst, dst_dtype, src, src_dtype, n);
}
