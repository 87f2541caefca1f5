/* The kernels at the level AVX-512. */
#include "fold/avx512/vector.h"

#include "array/kernels/attention/flash.h"
#include "array/kernels/simd/simd.h"
#include "array/kernels/winograd4.h"

void lsi_kernels_fill_avx512(lsi_kernels *table)
{
    fill_simd(table);
    table->flash[0] = &lsi_flash_avx512[0];
    table->flash[1] = &lsi_flash_avx512[1];
    table->portable = &lsi_portable_avx512;
    table->chains = &lsi_chains_avx512;
    table->winograd4 = &lsi_winograd4_avx512;
    table->blocked = LSI_LAYOUT_BLOCKED_16;
}
