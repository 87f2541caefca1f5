/* The kernels of each level: the reference, and one object for each vector.h.
 */
#ifndef LS_FOLD_LEVELS_H
#define LS_FOLD_LEVELS_H

#include "fold/fold.h"

/* Plain loops: the definition of the results of all levels. */
#define X(name, args) void lsi_ref_##name args;
#include "fold/fold.def"
#undef X

extern const lsi_fold_table lsi_fold_neon;
extern const lsi_fold_table lsi_fold_avx2;
extern const lsi_fold_table lsi_fold_avx512;

#endif
