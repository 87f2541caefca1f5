/* Winograd's algorithm for f32 at the level AVX2. */
#include "fold/avx2/vector.h"

#include "array/kernels/simd/winograd4.h"

const lsi_winograd4_ops lsi_winograd4_avx2 =
    WINOGRAD4_OPS(LSI_LAYOUT_BLOCKED_8);
