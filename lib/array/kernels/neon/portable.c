/* Products of portable bits at the level NEON. */
#include "fold/neon/vector.h"

#include "array/kernels/simd/portable_gemm.h"
#include "array/kernels/simd/row_chains.h"

const lsi_portable_ops lsi_portable_neon = PORTABLE_OPS(lsi_neon_row_chains);
