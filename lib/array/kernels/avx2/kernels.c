/* The kernels at the level AVX2. */
#include "fold/avx2/vector.h"

#include "array/kernels/attention/flash.h"
#include "array/kernels/simd/simd.h"
#include "array/kernels/winograd4.h"

void lsi_kernels_fill_avx2(lsi_kernels *table)
{
    fill_simd(table);
    table->flash[0] = &lsi_flash_avx2[0];
    table->flash[1] = &lsi_flash_avx2[1];
    table->portable = &lsi_portable_avx2;
    table->chains = &lsi_chains_avx2;
    table->winograd4 = &lsi_winograd4_avx2;
}
