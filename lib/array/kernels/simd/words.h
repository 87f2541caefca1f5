/*
 * What every file of simd/ stands on: the words of the level that included its
 * vector.h before. A file that is looked at alone, as linters do, is read as
 * that of AVX2.
 */
#ifndef LS_ARRAY_KERNELS_SIMD_WORDS_H
#define LS_ARRAY_KERNELS_SIMD_WORDS_H

#ifndef LSI_SIMD
#    include "array/kernels/avx2/vector.h"
#endif

#include <math.h>
#include <string.h>

#include "array/kernels/kernels.h"
#include "array/kernels/layout.h"
#include "array/kernels/ref/ref.h"

#define X(name, args) void LSI_SIMD(name) args;
#include "array/kernels/kernels.def"
#undef X

/*
 * The loop of vector kernels: the body, a statement in braces, is run with `i`
 * at each vector and `m` lanes in it. It is compiled twice, for full vectors,
 * where m is the constant LANES, and for the rest.
 */
#define FOR_LANES(n, ...)                                                      \
    do {                                                                       \
        const size_t n_ = (n);                                                 \
        size_t i = 0;                                                          \
        for (; i + LANES <= n_; i += LANES) {                                  \
            const size_t m = LANES;                                            \
            __VA_ARGS__                                                        \
        }                                                                      \
        if (i < n_) {                                                          \
            const size_t m = n_ - i;                                           \
            __VA_ARGS__                                                        \
        }                                                                      \
    } while (0)

static inline size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

#endif
