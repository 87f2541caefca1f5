/* Types of elements and reductions that a collective is measured with. */
#ifndef LS_CLI_BENCH_KINDS_H
#define LS_CLI_BENCH_KINDS_H

#include <stdbool.h>
#include <stddef.h>

#include "lockstep/status.h"
#include "lockstep/types.h"

typedef struct lsi_bench_kind {
    ls_dtype dtype;
    ls_reduce_op op;
} lsi_bench_kind;

enum { LSI_BENCH_KINDS_MOST = 64 };

typedef struct lsi_bench_kinds {
    lsi_bench_kind all[LSI_BENCH_KINDS_MOST];
    size_t n;
} lsi_bench_kinds;

/*
 * Every type with every reduction; "all" stands for those that the other list
 * allows. If nothing is reduced, the reduction must only exist.
 */
ls_status lsi_bench_kinds_parse(const char *dtype, const char *op, bool reduces,
                                lsi_bench_kinds *out);

#endif
