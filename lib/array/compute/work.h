/*
 * How much work an operation is: the bytes that it has to read and write at
 * least, and its floating-point operations, for the timeline (observe/spans.h).
 */
#ifndef LS_ARRAY_COMPUTE_WORK_H
#define LS_ARRAY_COMPUTE_WORK_H

#include <stddef.h>
#include <stdint.h>

#include "array/kernels/dense.h"
#include "observe/spans.h"

static inline uint64_t lsi_work_elements(int64_t ndim, const int64_t *shape)
{
    uint64_t n = 1;
    for (int64_t d = 0; d < ndim; d++)
        n *= (uint64_t)shape[d];
    return n;
}

/* The name of a product, and of a batch of them: by what is multiplied. */
static inline const char *lsi_work_gemm_name(const lsi_gemm_shape *g)
{
    return g->ab_dtype == LS_F32    ? "gemm_f32"
           : g->ab_dtype == LS_BF16 ? "gemm_bf16"
                                    : "gemm_f16";
}

static inline const char *lsi_work_gemm_batch_name(const lsi_gemm_shape *g)
{
    return g->ab_dtype == LS_F32    ? "gemm_batch_f32"
           : g->ab_dtype == LS_BF16 ? "gemm_batch_bf16"
                                    : "gemm_batch_f16";
}

/* Of `count` products. */
static inline uint64_t lsi_work_gemm(const lsi_gemm_shape *g, uint64_t count)
{
    return 2 * (uint64_t)(g->m * g->n * g->k) * count;
}

static inline uint64_t lsi_work_gemm_bytes(const lsi_gemm_shape *g,
                                           uint64_t count)
{
    const uint64_t in = (uint64_t)(g->k * (g->m + g->n));
    const uint64_t out = (uint64_t)(g->m * g->n) * (g->accumulate ? 2 : 1);
    return count *
           (in * ls_dtype_size(g->ab_dtype) + out * ls_dtype_size(g->c_dtype));
}

/* One pass: forward, or one of the two gradients. */
static inline uint64_t lsi_work_conv2d(const lsi_conv2d_shape *s)
{
    const int64_t groups = s->groups > 0 ? s->groups : 1;
    return 2 * (uint64_t)(s->n * s->o * (s->c / groups) * s->kh * s->kw *
                          lsi_conv2d_extent(s, s->h, s->kh) *
                          lsi_conv2d_extent(s, s->w, s->kw));
}

static inline uint64_t lsi_work_conv2d_bytes(const lsi_conv2d_shape *s)
{
    const int64_t groups = s->groups > 0 ? s->groups : 1;
    const int64_t out =
        lsi_conv2d_extent(s, s->h, s->kh) * lsi_conv2d_extent(s, s->w, s->kw);
    const int64_t elements = s->n * s->c * s->h * s->w + s->n * s->o * out +
                             s->o * (s->c / groups) * s->kh * s->kw;
    return (uint64_t)elements * ls_dtype_size(s->dtype);
}

#endif
