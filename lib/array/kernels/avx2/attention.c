/* Attention for AVX2 with FMA. */
#include "fold/avx2/vector.h"

#include "array/kernels/attention/tile_level.h"

const lsi_flash_ops lsi_flash_avx2[2] = LEVEL_OPS;
