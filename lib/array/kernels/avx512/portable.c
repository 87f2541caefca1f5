/* Products of portable bits at the level AVX-512. */
#include "fold/avx512/vector.h"

#include "array/kernels/simd/portable_gemm.h"

const lsi_portable_ops lsi_portable_avx512 = PORTABLE_OPS(lsi_avx2_row_chains);
