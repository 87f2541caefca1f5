/*
 * Convolutions by oneDNN. The functions are those of compute/dense.h; extents
 * are checked and not 0.
 */
#ifndef LS_ARRAY_COMPUTE_ONEDNN_CONV2D_H
#define LS_ARRAY_COMPUTE_ONEDNN_CONV2D_H

#include "array/kernels/dense.h"

typedef struct lsi_conv2d_layouts {
    lsi_layout src, dst;
} lsi_conv2d_layouts;

/* Whether all passes in the shape's types have code of oneDNN's own. */
ls_status lsi_conv2d_is_fast(const lsi_conv2d_shape *shape, bool *fast);

typedef struct lsi_onednn_conv2d lsi_onednn_conv2d;

/*
 * Each pass is planned when it is first used. *out is the caller's; NULL in a
 * build without oneDNN.
 */
ls_status lsi_onednn_conv2d_new(lsi_onednn_conv2d **out,
                                const lsi_conv2d_shape *shape);
void lsi_onednn_conv2d_free(lsi_onednn_conv2d *conv);
lsi_conv2d_layouts lsi_onednn_conv2d_layouts(const lsi_onednn_conv2d *conv);

ls_status lsi_onednn_conv2d_forward(lsi_onednn_conv2d *conv, void *dst,
                                    const void *src, const void *weight,
                                    const float *bias_or_null);
ls_status lsi_onednn_conv2d_backward_data(lsi_onednn_conv2d *conv, void *dsrc,
                                          const void *ddst, const void *weight);
ls_status lsi_onednn_conv2d_backward_weight(lsi_onednn_conv2d *conv,
                                            float *dweight,
                                            float *dbias_or_null,
                                            const void *src, const void *ddst,
                                            bool accumulate);

#endif
