/*
 * What a collective computes while it makes progress: on the calling thread,
 * which has other things to do, over the range that has arrived. Everything
 * else uses operations that divide their work among threads.
 */
#ifndef LS_FOLD_SERIAL_H
#define LS_FOLD_SERIAL_H

#include <stddef.h>

#include "lockstep/types.h"

/* As the kernels `reduce` and `convert`. */
void lsi_serial_reduce(void *dst, const void *const *srcs, int n_srcs, size_t n,
                       ls_dtype dtype, ls_reduce_op op, double factor);
void lsi_serial_convert(void *dst, ls_dtype dst_dtype, const void *src,
                        ls_dtype src_dtype, size_t n);

#endif
