/*
 * The shapes of dense products, convolutions and pooling, and the layouts of
 * images: arguments of their kernels and operations (array/compute/dense.h).
 */
#ifndef LS_ARRAY_KERNELS_DENSE_H
#define LS_ARRAY_KERNELS_DENSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lockstep/types.h"

/*
 * C (m, n) = A (m, k) B (k, n) (+ bias (n), broadcast over rows) (+ C if
 * accumulate). Row-major; *_transposed says that the array holds the
 * transpose, row-major. ld* are the leading dimensions in elements. Types: all
 * f32, or A and B bf16 or f16 with C f32 or as they are. Any extent may be 0.
 */
typedef struct lsi_gemm_shape {
    int64_t m, n, k;
    int64_t lda, ldb, ldc;
    bool a_transposed, b_transposed;
    bool accumulate;
    ls_dtype ab_dtype, c_dtype;
} lsi_gemm_shape;

/*
 * Products of one shape. Extents are their numbers, and strides are the
 * distances of their matrices in elements. A stride of 0 repeats A or B; with a
 * stride of 0 for C, the products along this dimension are added up.
 */
enum { LSI_GEMM_BATCH_DIMS = 4 };
typedef struct lsi_gemm_batch {
    int64_t ndim;
    int64_t extent[LSI_GEMM_BATCH_DIMS];
    int64_t a[LSI_GEMM_BATCH_DIMS], b[LSI_GEMM_BATCH_DIMS];
    int64_t c[LSI_GEMM_BATCH_DIMS];
} lsi_gemm_batch;

/*
 * Some rows of A, or columns of B, as the lanes of a panel. Either lanes are
 * side by side and `ld` floats lead to the next term, or the other way round.
 */
typedef struct lsi_strip {
    const float *data;
    size_t ld;
    size_t lanes, terms;
    bool lanes_dense;
} lsi_strip;

/* Memory that is wanted soon: rows of cache lines. */
typedef struct lsi_fetch {
    const float *data;
    size_t ld;          /* floats from row to row */
    size_t rows, lines; /* of each row */
} lsi_fetch;

/*
 * The order in memory of the elements of an (N, C, H, W) tensor. Layouts other
 * than PLAIN stay between the operations of this header and element-wise ones;
 * they are dense, with C a multiple of the block.
 */
typedef enum lsi_layout {
    LSI_LAYOUT_PLAIN,         /* N C H W */
    LSI_LAYOUT_CHANNELS_LAST, /* N H W C */
    LSI_LAYOUT_BLOCKED_8,     /* N C/8 H W 8 */
    LSI_LAYOUT_BLOCKED_16     /* N C/16 H W 16 */
} lsi_layout;

/* Without holes: plans are looked for by the bytes. */
typedef struct lsi_conv2d_shape {
    int64_t n, c, h, w;      /* input */
    int64_t o, kh, kw;       /* filters */
    int64_t stride, padding; /* both directions, all sides */
    int32_t bias, relu;      /* bool */
    ls_dtype dtype;          /* of src, weight, dst and ddst: f32 or half */
    ls_dtype dsrc_dtype;     /* that, or f32 */
    int64_t dilation;        /* of the filter's taps; a plan takes 0 for 1 */
    int64_t groups;          /* each of c / groups, o / groups; also 0 for 1 */
} lsi_conv2d_shape;

/* Rows (columns) of the output for as many of the input and of the filter. */
static inline int64_t lsi_conv2d_extent(const lsi_conv2d_shape *s, int64_t in,
                                        int64_t k)
{
    return (in + 2 * s->padding - (k - 1) * s->dilation - 1) / s->stride + 1;
}

/*
 * Windows size x size, stride = size, over an (n, c, h, w) tensor in any
 * layout. The result dst is always PLAIN, because the following layer flattens
 * it. The array `index` has one byte for each element of dst, in the order of
 * the source's layout. The byte is the place, row * size + column, of the
 * maximum in its window: the first on ties, or the first NaN. Rows and columns
 * that do not fill a window are ignored; their gradient is 0.
 */
typedef struct lsi_pool2d {
    int64_t n, c, h, w;
    int64_t size; /* 1..15 */
    lsi_layout src_layout;
} lsi_pool2d;

/*
 * Windows that may overlap and reach over the border: (n, c, h, w) to
 * (n, c, oh, ow), both in `layout`. Of a maximum, index is as in lsi_pool2d.
 */
typedef struct lsi_window2d {
    int64_t n, c, h, w, oh, ow;
    int64_t size, stride, padding; /* size 1..15, padding at most half of it */
    lsi_layout layout;
} lsi_window2d;

#endif
