/* Fills every slot of the table with the reference. */
#include "kernels/ref/ref.h"

void lsi_kernels_fill_ref(lsi_kernels *table)
{
#define X(name, args) table->name = lsi_ref_##name;
#include "kernels/kernels.def"
#undef X
    table->isa = LSI_ISA_REF;
}
