/*
 * All vector kernels, in the words of the vector.h that was included before:
 * an instruction level is that header, and a file that includes this one.
 */
#ifndef LS_KERNELS_SIMD_SIMD_H
#define LS_KERNELS_SIMD_SIMD_H

#include "kernels/simd/activations.h"
#include "kernels/simd/affine.h"
#include "kernels/simd/columns.h"
#include "kernels/simd/convert.h"
#include "kernels/simd/dropout.h"
#include "kernels/simd/elementwise.h"
#include "kernels/simd/functions.h"
#include "kernels/simd/images.h"
#include "kernels/simd/losses.h"
#include "kernels/simd/optimizers.h"
#include "kernels/simd/products.h"
#include "kernels/simd/reduce.h"
#include "kernels/simd/rows.h"
#include "kernels/simd/softmax.h"
#include "kernels/simd/sums.h"
#include "kernels/simd/transpose.h"
#include "kernels/simd/windows.h"

/* Replaces the slots that have a vector version. */
INLINE void fill_simd(lsi_kernels *table)
{
#define V(name) table->name = LSI_SIMD(name);
#include "kernels/simd/simd.def"
#undef V
}

#endif
