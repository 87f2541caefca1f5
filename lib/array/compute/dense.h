/*
 * Matrix products, convolutions and pooling, done by oneDNN (by plain loops at
 * the level `ref`, large f32 products by kernels/amx where there is AMX).
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
 * The calling thread's plan for a shape, owned by its cache. Which algorithm
 * and which layouts it uses is a fixed function of the shape and the
 * instruction level (never of a measurement), so that a run repeats bit for bit
 * and all ranks agree; the layouts do not depend on n. *src_layout and
 * *dst_layout say what the plan wants and gives; the weights are always plain
 * (O, C, KH, KW), the plan reorders them itself.
 *
 * A plan computes in the shape's type, which *_dtype tells, or in f32 if that
 * is faster here: all arrays are f32 then, and for the caller to convert.
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
 * gradient of what was before it (see relu_backward), here and below.
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
