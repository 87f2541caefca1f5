/* Attention for NEON. */
#include "fold/neon/vector.h"

#include "array/kernels/attention/tile_level.h"

const lsi_flash_ops lsi_flash_neon[2] = LEVEL_OPS;
