/*
 * Kernels with portable bits, in AVX-512: its vectors have the 16 lanes of
 * portable/wide.h, so most kernels of the level are portable.
 */
#include "fold/avx512/vector.h"

#undef LSI_SIMD
#define LSI_SIMD(name) lsi_avx512_portable_##name
#define ROW_CHAINS     lsi_avx2_row_chains

#include "array/kernels/attention/flash.h"
#include "array/kernels/simd/portable_products.h"

void lsi_kernels_portable_avx512(lsi_kernels *table)
{
    table->row_products = LSI_SIMD(row_products);
    table->attend = LSI_SIMD(attend);
    table->flash[0] = &lsi_flash_avx512[0];
}
