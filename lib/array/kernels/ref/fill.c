/* Fills every slot of the table with the reference. */
#include "array/kernels/attention/flash.h"
#include "array/kernels/chains.h"
#include "array/kernels/ref/dense.h"
#include "array/kernels/ref/ref.h"

void lsi_kernels_fill_ref(lsi_kernels *table)
{
    *table = (lsi_kernels){
#define X(name, args) .name = lsi_ref_##name,
#include "array/kernels/kernels.def"
#undef X
        .flash = {&lsi_flash_ref[0], &lsi_flash_ref[1]},
        .portable = &lsi_portable_ref,
        .winograd4 = &lsi_winograd4_ref,
        .chains = &lsi_chains_ref,
        .blocked = LSI_LAYOUT_BLOCKED_8};
}
