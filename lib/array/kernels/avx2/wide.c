/* Kernels with portable bits, in AVX2. */
#include "fold/avx2/vector.h"

#include "array/kernels/portable/wide.h"

#undef LSI_SIMD
#define LSI_SIMD(name) lsi_avx2_portable_##name
#define ROW_CHAINS     lsi_avx2_row_chains

#include "array/kernels/attention/flash.h"
#include "array/kernels/portable/kernels.h"

void lsi_kernels_portable_avx2(lsi_kernels *table)
{
    fill_portable(table);
    table->flash[0] = &lsi_flash_portable_avx2;
}
