/* Attention in plain C. */
#include "array/kernels/attention/tile_level.h"

const lsi_flash_ops lsi_flash_ref[2] = LEVEL_OPS;
