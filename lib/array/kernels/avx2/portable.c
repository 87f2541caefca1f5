/* Products of portable bits at the level AVX2. */
#include "fold/avx2/vector.h"

#include "array/kernels/simd/portable_gemm.h"
#include "array/kernels/simd/row_chains.h"

const lsi_portable_ops lsi_portable_avx2 = PORTABLE_OPS(lsi_avx2_row_chains);
