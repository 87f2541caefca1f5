/* Attention for NEON. */
#include "kernels/neon/vector.h"

#include "kernels/attention/tile_level.h"

const lsi_flash_ops lsi_flash_neon[2] = LEVEL_OPS;
