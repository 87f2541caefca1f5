/* The kernels at the level NEON. */
#include "fold/neon/vector.h"

#include "array/kernels/attention/flash.h"
#include "array/kernels/simd/simd.h"

void lsi_kernels_fill_neon(lsi_kernels *table)
{
    fill_simd(table);
    table->flash[0] = &lsi_flash_neon[0];
    table->flash[1] = &lsi_flash_neon[1];
    table->portable = &lsi_portable_neon;
    table->winograd4 = &lsi_winograd4_neon;
    table->chains = &lsi_chains_neon;
}
