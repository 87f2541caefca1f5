/* Attention for AVX-512 with AMX. */
#define PRODUCT_TILES 1
#include "fold/avx512/vector.h"

#include "array/kernels/amx/panel.h"
#include "array/kernels/attention/tile_level.h"
#include "array/kernels/kernels.h"

const lsi_flash_ops lsi_flash_amx[2] = LEVEL_OPS;

static const lsi_panel_ops panels = {
    .pack_a = lsi_amx_pack_a,
    .pack_b = lsi_amx_pack_b,
    .begin = lsi_amx_begin,
    .end = lsi_amx_end,
    .multiply = lsi_amx_multiply,
    .put = lsi_amx_put,
};

void lsi_kernels_fill_amx(lsi_kernels *table)
{
    table->flash[0] = &lsi_flash_amx[0];
    table->flash[1] = &lsi_flash_amx[1];
    table->panels = &panels;
    table->bf16_layout = LSI_LAYOUT_CHANNELS_LAST;
    table->bf16_channels = 1;
}
