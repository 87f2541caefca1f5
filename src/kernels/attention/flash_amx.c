/*
 * Attention for AVX-512 with AMX.
 */
#define V_TILES 1
#include "kernels/attention/vec_avx512.h"

#include "kernels/attention/tile_level.h"

const lsi_flash_ops lsi_flash_amx[2] = LEVEL_OPS;
