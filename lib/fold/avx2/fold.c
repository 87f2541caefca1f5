/* The two kernels at the level AVX2. */
#include "fold/avx2/vector.h"

#include "fold/simd/fold.h"

const lsi_fold_table lsi_fold_avx2 = FOLD_OF_WORDS;
