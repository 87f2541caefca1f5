/*
 * The two kernels that communication calls, reduce and convert, at the level of
 * this machine. liblockstep uses them for its table (array/kernels/kernels.h),
 * whose rules hold for them.
 */
#ifndef LS_FOLD_FOLD_H
#define LS_FOLD_FOLD_H

#include <stddef.h>

#include "base/cpu.h"
#include "lockstep/types.h"

typedef struct lsi_fold_table {
#define X(name, args) void(*name) args;
#include "fold/fold.def"
#undef X
    lsi_isa isa;
} lsi_fold_table;

/* The kernels for this process, chosen on first use. Never NULL. */
const lsi_fold_table *lsi_fold_get(void);

/*
 * Whether LOCKSTEP_ISA is a level that this machine has. Asked by all code that
 * makes the things that compute: groups, tensors, parameters, tapes, datasets.
 */
ls_status lsi_fold_check(void);

/*
 * Those of this process, for what a collective computes while it makes
 * progress: on the calling thread, which has other things to do, over the range
 * that has arrived. Everything else uses operations that divide their work
 * among threads.
 */
static inline void lsi_serial_reduce(void *dst, const void *const *srcs,
                                     int n_srcs, size_t n, ls_dtype dtype,
                                     ls_reduce_op op, double factor)
{
    lsi_fold_get()->reduce(dst, srcs, n_srcs, n, dtype, op, factor);
}

static inline void lsi_serial_convert(void *dst, ls_dtype dst_dtype,
                                      const void *src, ls_dtype src_dtype,
                                      size_t n)
{
    lsi_fold_get()->convert(dst, dst_dtype, src, src_dtype, n);
}

/* The kernels at one level: LS_ERR_UNSUPPORTED above the machine's. */
ls_status lsi_fold_at(lsi_isa isa, lsi_fold_table *out);

#endif
