/* Attention for AVX-512. */
#include "fold/avx512/vector.h"

#include "array/kernels/attention/tile_level.h"

const lsi_flash_ops lsi_flash_avx512[2] = LEVEL_OPS;
