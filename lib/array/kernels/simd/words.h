/* The includes of every file of simd/, and the prototypes of its kernels. */
#ifndef LS_ARRAY_KERNELS_SIMD_WORDS_H
#define LS_ARRAY_KERNELS_SIMD_WORDS_H

#include "fold/simd/words.h"

#include "array/kernels/kernels.h"
#include "array/kernels/layout.h"
#include "array/kernels/ref/ref.h"

#define X(name, args) void LSI_SIMD(name) args;
#include "array/kernels/kernels.def"
#undef X

#endif
