/* Products of portable bits at the level NEON. */
#include "fold/neon/vector.h"

#define TILE_ROWS 6
#define TILE_VECS 4
#include "array/kernels/simd/portable_gemm.h"

const lsi_portable_ops lsi_portable_neon = PORTABLE_OPS;
