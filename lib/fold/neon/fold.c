/* The two kernels at the level NEON. */
#include "fold/neon/vector.h"

#include "fold/simd/fold.h"

const lsi_fold_table lsi_fold_neon = FOLD_OF_WORDS;
