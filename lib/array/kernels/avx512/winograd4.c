/* Winograd's algorithm for f32 at the level AVX-512. */
#include "fold/avx512/vector.h"

#include "array/kernels/simd/winograd4.h"

const lsi_winograd4_ops lsi_winograd4_avx512 =
    WINOGRAD4_OPS(LSI_LAYOUT_BLOCKED_16);
