/* Kernels with portable bits, in NEON. */
#include "fold/neon/vector.h"

#include "array/kernels/portable/wide.h"

#undef LSI_SIMD
#define LSI_SIMD(name) lsi_neon_portable_##name
#define ROW_CHAINS     lsi_neon_row_chains

#include "array/kernels/attention/flash.h"
#include "array/kernels/portable/kernels.h"

void lsi_kernels_portable_neon(lsi_kernels *table)
{
    fill_portable(table);
    table->flash[0] = &lsi_flash_portable_neon;
}
