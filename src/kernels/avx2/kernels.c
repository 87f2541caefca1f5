/* The kernels at the level AVX2. */
#include "kernels/avx2/vector.h"

#include "kernels/simd/simd.h"

void lsi_kernels_fill_avx2(lsi_kernels *table)
{
    fill_simd(table);
    table->isa = LSI_ISA_AVX2;
}
