/* Winograd's algorithm for f32 at the level NEON. */
#include "fold/neon/vector.h"

#include "array/kernels/simd/winograd4.h"

const lsi_winograd4_ops lsi_winograd4_neon = WINOGRAD4_OPS(LSI_LAYOUT_PLAIN);
