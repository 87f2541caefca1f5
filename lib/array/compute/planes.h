/*
 * Normalisation of channels of images of any real type, computed in f32, on all
 * threads. Sums over an image are in the order of its layout, so results do not
 * depend on the threads.
 */
#ifndef LS_ARRAY_COMPUTE_PLANES_H
#define LS_ARRAY_COMPUTE_PLANES_H

#include <stdbool.h>
#include <stddef.h>

#include "array/compute/mixed.h"
#include "array/kernels/dense.h"

/* Dense tensors (images, channels / block, pixels, block): kernels/layout.h. */
typedef struct lsi_planes {
    size_t images, channels, pixels, block;
} lsi_planes;

/*
 * Those of a tensor (N, C, ...). The rows of a matrix (N, C) count as pixels of
 * one image.
 */
lsi_planes lsi_planes_of(lsi_layout layout, int ndim, const int64_t *shape);

/*
 * Vectors over channels. If `step` is 0 all images have the same; if it is the
 * number of channels each image has its own, one after the other.
 */
typedef struct lsi_plane_affine {
    const float *mean, *scale, *bias;
    size_t step;
} lsi_plane_affine;

/* No array: of an argument that may be left out. */
static const lsi_mixed LSI_NO_ARRAY = {NULL, LS_F32};

/*
 * Of each channel of each image, (images, channels): the mean, and m2 = sum of
 * (x - mean)^2. No pixels give zeros.
 */
void lsi_planes_moments(const lsi_planes *s, lsi_mixed x, float *mean,
                        float *m2);

/*
 * The same of each channel of all these images together, without cancellation
 * (Chan, Golub, LeVeque 1979): mean and m2 (channels).
 */
void lsi_planes_merge(const lsi_planes *s, const float *means, const float *m2s,
                      float *mean, float *m2);

/* out (channels) = sum over images of sums (images, channels), in double. */
void lsi_planes_fold(const lsi_planes *s, const float *sums, float *out);

/* sums (images, channels): of each channel of each image; spare is as large. */
void lsi_planes_total(const lsi_planes *s, lsi_mixed x, float *sums,
                      float *spare);

/* All pixels of each channel of each image = values (images, channels). */
void lsi_planes_fill(const lsi_planes *s, lsi_mixed y, const float *values);

/* y = (x - mean) scale + bias (+ residual), then max(y, 0) with relu. */
void lsi_planes_affine(const lsi_planes *s, const lsi_plane_affine *a,
                       lsi_mixed y, lsi_mixed x, lsi_mixed residual, bool relu);

/* The gate of the relu that a gradient passed on its way back. */
typedef enum lsi_plane_gate {
    LSI_GATE_NONE, /* no relu: dz = dy */
    LSI_GATE_BY_Y, /* dz = dy where y > 0 */
    LSI_GATE_BY_X  /* dz = dy where (x - mean) scale + bias > 0 */
} lsi_plane_gate;

/*
 * For each channel of each image, (images, channels): sum_dz = sum of dz, and
 * sum_dz_d = sum of dz (x - mean). The array y is read with LSI_GATE_BY_Y. The
 * array dz is written unless it is LSI_NO_ARRAY; it may be dy.
 */
typedef struct lsi_plane_sums {
    lsi_mixed dz, dy, x, y;
    lsi_plane_gate gate;
    float *sum_dz, *sum_dz_d;
} lsi_plane_sums;

void lsi_planes_sums(const lsi_planes *s, const lsi_plane_affine *a,
                     const lsi_plane_sums *sums);

/*
 * dx = scale dz + (x - mean) p + q; dz is dy, gated by x if wanted. p and q
 * have the step of the rest. dx may be dy.
 */
typedef struct lsi_plane_dx {
    lsi_mixed dx, dy, x;
    bool gated_by_x;
    const float *p, *q;
} lsi_plane_dx;

void lsi_planes_dx(const lsi_planes *s, const lsi_plane_affine *a,
                   const lsi_plane_dx *g);

#endif
