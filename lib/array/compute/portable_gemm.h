/*
 * f32 products whose bits are portable (kernels/portable.h): an element depends
 * on its row of A, its column of B and k only, at every instruction level. It
 * does not depend on m, n, its place, the leading dimensions or the threads.
 */
#ifndef LS_ARRAY_COMPUTE_PORTABLE_GEMM_H
#define LS_ARRAY_COMPUTE_PORTABLE_GEMM_H

#include "array/kernels/dense.h"

/* Whether a product is computed so. */
bool lsi_portable_gemm_suits(const lsi_gemm_shape *shape);

/*
 * As lsi_gemm_run_batch, with a separate C for each product; a batch of no
 * dimensions is one product. The shape has been checked and suits; m and n are
 * not 0. An element is ((sum + bias) + C).
 */
ls_status lsi_portable_gemm(const lsi_gemm_shape *shape,
                            const lsi_gemm_batch *batch, float *c,
                            const float *a, const float *b,
                            const float *bias_or_null);

#endif
