/* Attention for AVX-512 with its bf16 instructions. */
#include "fold/avx512/vector.h"

#include "array/kernels/attention/tile_level.h"
#include "array/kernels/avx512_bf16/winograd_parts.h"
#include "array/kernels/kernels.h"

const lsi_flash_ops lsi_flash_avx512_bf16[2] = LEVEL_OPS;

void lsi_kernels_fill_avx512_bf16(lsi_kernels *table)
{
    table->flash[0] = &lsi_flash_avx512_bf16[0];
    table->flash[1] = &lsi_flash_avx512_bf16[1];
    table->bf16_layout = LSI_LAYOUT_BLOCKED_16;
    table->bf16_channels = 64;
    table->winograd = &lsi_winograd_avx512_bf16;
}
