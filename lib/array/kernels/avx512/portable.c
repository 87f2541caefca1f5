/* Products of portable bits at the level AVX-512. */
#include "fold/avx512/vector.h"

#define TILE_ROWS 14
#define TILE_VECS 2
#include "array/kernels/simd/portable_gemm.h"

const lsi_portable_ops lsi_portable_avx512 = PORTABLE_OPS;
