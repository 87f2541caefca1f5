/* Both kernels, in the words of the vector.h that was included before. */
#ifndef LS_FOLD_SIMD_FOLD_H
#define LS_FOLD_SIMD_FOLD_H

#include "fold/levels.h"
#include "fold/simd/convert.h"
#include "fold/simd/reduce.h"

#define FOLD_OF_WORDS                                                          \
    {                                                                          \
        .reduce = reduce, .convert = convert                                   \
    }

#endif
