/* Attention for AVX-512 with AMX. */
#define PRODUCT_TILES 1
#include "kernels/avx512/vector.h"

#include "kernels/amx/gemm.h"
#include "kernels/attention/tile_level.h"
#include "kernels/kernels.h"

const lsi_flash_ops lsi_flash_amx[2] = LEVEL_OPS;

void lsi_kernels_fill_amx(lsi_kernels *table)
{
    table->flash = lsi_flash_amx;
#ifdef LOCKSTEP_ONEDNN /* in the scratch memory of which it works */
    table->gemm_suits = lsi_amx_suits;
    table->gemm = lsi_amx_gemm;
#endif
    table->convolves_bf16 = true;
}
