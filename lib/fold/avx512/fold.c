/* The two kernels at the level AVX-512. */
#include "fold/avx512/vector.h"

#include "fold/simd/fold.h"

const lsi_fold_table lsi_fold_avx512 = FOLD_OF_WORDS;
