/*
 * The two kernels that communication calls, reduce and convert, at the level of
 * this machine. liblockstep takes them from here for its own table
 * (array/kernels/kernels.h), whose rules hold for them.
 */
#ifndef LS_FOLD_FOLD_H
#define LS_FOLD_FOLD_H

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

/* The kernels at one level: LS_ERR_UNSUPPORTED above the machine's. */
ls_status lsi_fold_at(lsi_isa isa, lsi_fold_table *out);

#endif
