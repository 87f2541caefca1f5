/*
 * Functions shared by the normalisations of channels: batch_norm of images, its
 * synchronised form (lib/model/parallel) and group_norm. They differ in the
 * source of a channel's mean and variance.
 *
 *     y   = (x - mean) scale + bias (+ residual), then max(y, 0) with relu
 *     dz  = dy, or dy where y > 0 with relu           dresidual = dz
 *     dx  = scale dz + (x - mean) p + q
 *
 * y has the type and the layout of x. Without a residual, backward derives the
 * mask of the relu from x and does not read y.
 */
#ifndef LS_MODEL_AUTOGRAD_OPS_IMAGE_NORM_H
#define LS_MODEL_AUTOGRAD_OPS_IMAGE_NORM_H

#include "array/compute/plane_stats.h"
#include "array/compute/planes.h"
#include "model/autograd/ops/ops.h"

/* Inputs and saved tensors of a normalisation node. */
enum {
    LSI_NORM_X,
    LSI_NORM_WEIGHT,
    LSI_NORM_BIAS,
    LSI_NORM_RESIDUAL,
    LSI_NORM_INPUTS
};
enum { LSI_NORM_SAVED_X, LSI_NORM_SAVED_STATS, LSI_NORM_SAVED };

/* Forward, from open to apply. */
typedef struct lsi_image_norm {
    lsi_planes channels;
    ls_tensor *x, *residual, *y; /* residual or NULL */
    ls_tensor *saved;            /* the four statistics, one after another */
    lsi_plane_stats stats;
    bool relu;
} lsi_image_norm;

/*
 * Whether the function can normalise x (N, C, ...) and the residual, which has
 * x's shape or is NULL. Else the tape fails.
 */
bool lsi_image_norm_check(ls_tape *tape, const ls_function *function,
                          ls_tensor *x, ls_tensor *residual);

/*
 * Allocates outputs and memory; `vectors` is 1, or N for statistics per image.
 */
bool lsi_image_norm_open(ls_tape *tape, ls_tensor *x, ls_tensor *residual,
                         bool relu, int64_t vectors, lsi_image_norm *out);

void lsi_image_norm_apply(const lsi_image_norm *norm);

/* Backward, from sums to finish. */
typedef struct lsi_image_norm_grad {
    lsi_planes channels;
    lsi_plane_stats stats;
    lsi_mixed dy, dz, x;
    lsi_layout layout;
    lsi_target residual;
    bool gated_by_x;
    float *sum_dz, *sum_dz_d; /* (images, channels) */
} lsi_image_norm_grad;

/* Sums over each image, and the gradient of the residual. */
ls_status lsi_image_norm_sums(ls_tape *tape, ls_node *node, bool relu,
                              lsi_image_norm_grad *g);

/* The gradient of x; p and q have as many elements as each statistic. */
ls_status lsi_image_norm_finish(ls_tape *tape, ls_node *node,
                                lsi_image_norm_grad *g, const float *p,
                                const float *q);

/* Writes or adds `sum` (n) to the gradient of an input. */
ls_status lsi_image_norm_give(ls_tape *tape, ls_node *node, int index,
                              const float *sum, size_t n);

#endif
