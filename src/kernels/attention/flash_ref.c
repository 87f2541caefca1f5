/*
 * Attention in plain C: what every other level is compared with.
 */
#include "kernels/attention/tile_level.h"

const lsi_flash_ops lsi_flash_ref[2] = LEVEL_OPS;
