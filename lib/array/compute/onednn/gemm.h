/* Matrix products by oneDNN. */
#ifndef LS_ARRAY_COMPUTE_ONEDNN_GEMM_H
#define LS_ARRAY_COMPUTE_ONEDNN_GEMM_H

#include "array/kernels/dense.h"

/*
 * As lsi_gemm_run; the shape is checked and no extent is 0. *done is false if
 * oneDNN has no such product: f16, and below AVX-512 bf16.
 */
ls_status lsi_onednn_gemm(const lsi_gemm_shape *shape, void *c, const void *a,
                          const void *b, const float *bias_or_null, bool *done);

/*
 * As lsi_gemm_run_batch, for a batch of at least one dimension, none of which
 * is added up or empty. *done is false if oneDNN has no such products.
 */
ls_status lsi_onednn_gemm_batch(const lsi_gemm_shape *shape,
                                const lsi_gemm_batch *batch, void *c,
                                const void *a, const void *b, bool *done);

#endif
