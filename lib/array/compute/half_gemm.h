/*
 * Products of halves in f32, for processors that do not multiply halves. A
 * product of two halves is exact in f32. So the results are those of a unit
 * that multiplies halves and adds up in f32. Only the order of the sum may
 * differ, and such units choose their order, too.
 */
#ifndef LS_ARRAY_COMPUTE_HALF_GEMM_H
#define LS_ARRAY_COMPUTE_HALF_GEMM_H

#include "array/kernels/dense.h"

/*
 * A matrix product of f32: as lsi_gemm_run, for a shape that has been checked.
 */
typedef ls_status lsi_gemm_f32(const lsi_gemm_shape *shape, void *c,
                               const void *a, const void *b,
                               const float *bias_or_null);

/* As lsi_gemm_run; A and B are halves, and no extent is 0. */
ls_status lsi_half_gemm(const lsi_gemm_shape *shape, void *c, const void *a,
                        const void *b, const float *bias_or_null,
                        lsi_gemm_f32 *run);

#endif
