/*
 * All vector kernels, in the words of the vector.h that was included before:
 * an instruction level is that header, and a file that includes this one.
 */
#ifndef LS_ARRAY_KERNELS_SIMD_SIMD_H
#define LS_ARRAY_KERNELS_SIMD_SIMD_H

#include "array/kernels/simd/activations.h"
#include "array/kernels/simd/affine.h"
#include "array/kernels/simd/columns.h"
#include "array/kernels/simd/digest.h"
#include "array/kernels/simd/dropout.h"
#include "array/kernels/simd/elementwise.h"
#include "array/kernels/simd/functions.h"
#include "array/kernels/simd/images.h"
#include "array/kernels/simd/losses.h"
#include "array/kernels/simd/optimizers.h"
#include "array/kernels/simd/products.h"
#include "array/kernels/simd/rotations.h"
#include "array/kernels/simd/rows.h"
#include "array/kernels/simd/softmax.h"
#include "array/kernels/simd/squares.h"
#include "array/kernels/simd/sums.h"
#include "array/kernels/simd/transpose.h"
#include "array/kernels/simd/windows.h"

/* Replaces the slots that have a vector version. */
INLINE void fill_simd(lsi_kernels *table)
{
#define X(name, args) table->name = LSI_SIMD(name);
#define REFERENCE(...)
#include "array/kernels/kernels.def"
#undef X
}

#endif
