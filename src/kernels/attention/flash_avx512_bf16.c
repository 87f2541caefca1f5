/*
 * Attention for AVX-512 with its bf16 instructions.
 */
#include "kernels/attention/vec_avx512.h"

#include "kernels/attention/tile_level.h"

const lsi_flash_ops lsi_flash_avx512_bf16[2] = LEVEL_OPS;
