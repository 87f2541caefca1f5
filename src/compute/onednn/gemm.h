/* Matrix products by oneDNN. */
#ifndef LS_COMPUTE_ONEDNN_GEMM_H
#define LS_COMPUTE_ONEDNN_GEMM_H

#include "kernels/dense.h"

/* As lsi_gemm_run; the shape is checked and no extent is 0. */
ls_status lsi_onednn_gemm(const lsi_gemm_shape *shape, void *c, const void *a,
                          const void *b, const float *bias_or_null);

#endif
