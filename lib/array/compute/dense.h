/*
 * Matrix products, convolutions and pooling, done by oneDNN (by plain loops at
 * the level `ref`, large f32 products by kernels/amx where there is AMX). Where
 * bits are portable, f32 products are those of compute/portable_gemm.h.
 * Unlike other operations these are planned: a plan is made for a shape once,
 * cached for the life of the process, and may fail.
 * Execution is threaded by oneDNN's OpenMP and needs no allocation. Plans and
 * the scratch memory that they share belong to the thread that asked for them
 * and are freed when it ends.
 */
#ifndef LS_ARRAY_COMPUTE_DENSE_H
#define LS_ARRAY_COMPUTE_DENSE_H

#include "array/kernels/dense.h"

/* ---- matrix product ------------------------------------------------------ */

ls_status lsi_gemm_run(const lsi_gemm_shape *shape, void *c, const void *a,
                       const void *b, const float *bias_or_null);

/* A batch of products, without bias. C is dense. */
ls_status lsi_gemm_run_batch(const lsi_gemm_shape *shape,
                             const lsi_gemm_batch *batch, void *c,
                             const void *a, const void *b);

/* ---- convolution --------------------------------------------------------- */

typedef struct lsi_conv2d_plan lsi_conv2d_plan;

/*
 * The calling thread's plan for a shape, owned by its cache. Its algorithm and
 * its layouts are a fixed function of the shape and the instruction level,
 * never of a measurement. So a run repeats bit for bit, and all ranks agree.
 * The layouts do not depend on n. The functions *_src_layout and *_dst_layout
 * return the layouts of the plan's source and result. The weights are always
 * plain (O, C, KH, KW); the plan reorders them itself.
 *
 * A plan computes in the shape's type, or in f32 if f32 is faster here; *_dtype
 * returns the type. With f32, all arrays are f32, and the caller converts them.
 */
ls_status lsi_conv2d_plan_get(const lsi_conv2d_shape *shape,
                              lsi_conv2d_plan **plan);
ls_dtype lsi_conv2d_dtype(const lsi_conv2d_plan *plan);
lsi_layout lsi_conv2d_src_layout(const lsi_conv2d_plan *plan);
lsi_layout lsi_conv2d_dst_layout(const lsi_conv2d_plan *plan);

ls_status lsi_conv2d_forward(lsi_conv2d_plan *plan, void *dst, const void *src,
                             const void *weight, const float *bias_or_null);
/*
 * dsrc in src_layout, ddst in dst_layout. Overwrites. With relu, ddst is the
 * gradient of the input of the relu (see relu_backward), here and below.
 */
ls_status lsi_conv2d_backward_data(lsi_conv2d_plan *plan, void *dsrc,
                                   const void *ddst, const void *weight);
/* dweight plain, f32; dbias if the shape has a bias. Overwrites or
 * accumulates. */
ls_status lsi_conv2d_backward_weight(lsi_conv2d_plan *plan, float *dweight,
                                     float *dbias_or_null, const void *src,
                                     const void *ddst, bool accumulate);

/* ---- pooling ------------------------------------------------------------- */

void lsi_max_pool2d_forward(const lsi_pool2d *shape, float *dst, uint8_t *index,
                            const float *src);
/* dsrc in src_layout, overwritten. */
void lsi_max_pool2d_backward(const lsi_pool2d *shape, float *dsrc,
                             const float *ddst, const uint8_t *index);

/* Windows that may overlap, in any layout; outputs and dsrc are overwritten. */
void lsi_avg_window2d(const lsi_window2d *shape, float *dst, const float *src);
void lsi_avg_window2d_backward(const lsi_window2d *shape, float *dsrc,
                               const float *ddst);
void lsi_max_window2d(const lsi_window2d *shape, float *dst, uint8_t *index,
                      const float *src);
void lsi_max_window2d_backward(const lsi_window2d *shape, float *dsrc,
                               const float *ddst, const uint8_t *index);

/* ---- layouts ------------------------------------------------------------ */

/* dst in one layout = src in another, f32 or half; shape is (n, c, h, w). */
ls_status lsi_reorder(void *dst, lsi_layout dst_layout, const void *src,
                      lsi_layout src_layout, ls_dtype dtype,
                      const int64_t shape[4]);

/* Limits oneDNN to the level of LOCKSTEP_ISA; once, before the first plan. */
void lsi_dense_init(void);

/* "oneDNN 2.6.3", or "none" in a build without. Static. */
const char *lsi_dense_version(void);

#endif
