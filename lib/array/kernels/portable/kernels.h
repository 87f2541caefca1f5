/*
 * The kernels whose bits vary with the level, in the words of wide.h, which was
 * included before. LSI_SIMD has other names than those of the level.
 */
#ifndef LS_ARRAY_KERNELS_PORTABLE_KERNELS_H
#define LS_ARRAY_KERNELS_PORTABLE_KERNELS_H

#include "array/kernels/simd/activations.h"
#include "array/kernels/simd/functions.h"
#include "array/kernels/simd/losses.h"
#include "array/kernels/simd/portable_products.h"
#include "array/kernels/simd/rows.h"
#include "array/kernels/simd/softmax.h"
#include "array/kernels/simd/sums.h"

INLINE void fill_portable(lsi_kernels *table)
{
#define X(...)
#define VARIES(name, args) table->name = LSI_SIMD(name);
#include "array/kernels/kernels.def"
#undef X
}

#endif
