/*
 * All vector kernels, in the words of the vector.h that was included before:
 * an instruction level is that header, and a file that includes this one.
 */
#include <math.h>
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/layout.h"
#include "kernels/ref/ref.h"
#include "kernels/simd/loop.h"

#define X(name, args) void LSI_SIMD(name) args;
#include "kernels/kernels.def"
#undef X

#include "kernels/simd/elementwise.h"

#include "kernels/simd/dropout.h"

#include "kernels/simd/sums.h"

#include "kernels/simd/reduce.h"

#include "kernels/simd/convert.h"

#include "kernels/simd/columns.h"

#include "kernels/simd/exp.h"

#include "kernels/simd/losses.h"

#include "kernels/simd/optimizers.h"

#include "kernels/simd/images.h"

/* Replaces the slots that have a vector version. */
INLINE void fill_simd(lsi_kernels *table)
{
#define V(name) table->name = LSI_SIMD(name);
#include "kernels/simd/simd.def"
#undef V
}
