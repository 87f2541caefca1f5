/* Kernels with portable bits, in plain C. */
#include "array/kernels/portable/wide.h"

#undef LSI_SIMD
#define LSI_SIMD(name) lsi_ref_portable_##name
#define ROW_CHAINS     lsi_ref_row_chains

#include "array/kernels/attention/flash.h"
#include "array/kernels/portable/kernels.h"

void lsi_kernels_portable_ref(lsi_kernels *table)
{
    fill_portable(table);
    table->flash[0] = &lsi_flash_portable_ref;
}
