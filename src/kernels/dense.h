/*
 * Dense products, convolutions and pooling, done by oneDNN (by plain loops at
 * the level `ref`, large f32 products by kernels/amx where there is AMX).
 * Unlike the kernel table these are planned: a plan is made for a shape once,
 * cached for the life of the process, and may fail.
 * Execution is threaded by oneDNN's OpenMP and needs no allocation. Plans and
 * the scratch memory that they share belong to the thread that asked for them
 * and are freed when it ends.
 */
#ifndef LS_KERNELS_DENSE_H
#define LS_KERNELS_DENSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lockstep/types.h"

/* ---- matrix product ------------------------------------------------------ */

/*
 * C (m, n) = A (m, k) B (k, n) (+ bias (n), broadcast over rows) (+ C if
 * accumulate). Row-major; *_transposed says that the array holds the
 * transpose, row-major. ld* are the leading dimensions in elements. Types: all
 * f32, or A and B bf16 with C f32 or bf16. Any extent may be 0.
 */
typedef struct lsi_gemm {
    int64_t m, n, k;
    int64_t lda, ldb, ldc;
    bool a_transposed, b_transposed;
    bool accumulate;
    ls_dtype ab_dtype, c_dtype;
} lsi_gemm;

ls_status lsi_gemm_run(const lsi_gemm *shape, void *c, const void *a,
                       const void *b, const float *bias_or_null);

/* ---- convolution --------------------------------------------------------- */

/*
 * How the elements of an (N, C, H, W) tensor lie in memory. Everything but
 * PLAIN stays between the operations of this header and element-wise ones; it
 * is dense, C a multiple of the block.
 */
typedef enum lsi_layout {
    LSI_LAYOUT_PLAIN,         /* N C H W */
    LSI_LAYOUT_CHANNELS_LAST, /* N H W C */
    LSI_LAYOUT_BLOCKED_8,     /* N C/8 H W 8 */
    LSI_LAYOUT_BLOCKED_16     /* N C/16 H W 16 */
} lsi_layout;

typedef struct lsi_conv2d {
    int64_t n, c, h, w;      /* input */
    int64_t o, kh, kw;       /* filters */
    int64_t stride, padding; /* both directions, all sides */
    bool bias, relu;
    ls_dtype dtype;      /* of src, weight, dst and ddst: f32 or half */
    ls_dtype dsrc_dtype; /* that, or f32 */
} lsi_conv2d;

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
ls_status lsi_conv2d_plan_get(const lsi_conv2d *shape, lsi_conv2d_plan **plan);
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

/*
 * Windows size x size, stride = size, over an (n, c, h, w) tensor in any
 * layout; dst is PLAIN whatever the source's layout is (the following layer
 * flattens it). index has one byte for each element of dst, in the order of
 * the source's layout: the place of the maximum in its window (row * size +
 * column), the first on ties; the first NaN if there is one. Rows and columns
 * that fill no window are ignored; their gradient is 0.
 */
typedef struct lsi_pool2d {
    int64_t n, c, h, w;
    int64_t size; /* 1..15 */
    lsi_layout src_layout;
} lsi_pool2d;

void lsi_max_pool2d_forward(const lsi_pool2d *shape, float *dst, uint8_t *index,
                            const float *src);
/* dsrc in src_layout, overwritten. */
void lsi_max_pool2d_backward(const lsi_pool2d *shape, float *dsrc,
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
