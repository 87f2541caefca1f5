/*
 * Which layouts and which algorithm a convolution uses: a fixed function of its
 * shape and the instruction level (docs/dev/kernels.md has the measurements for
 * the rules).
 */
#ifndef LS_ARRAY_COMPUTE_ONEDNN_CONV2D_CHOICE_H
#define LS_ARRAY_COMPUTE_ONEDNN_CONV2D_CHOICE_H

#include <oneapi/dnnl/dnnl.h>

#include "array/compute/onednn/conv2d.h"

typedef enum lsi_conv2d_pass {
    LSI_CONV2D_FORWARD,
    LSI_CONV2D_DATA,
    LSI_CONV2D_WEIGHT
} lsi_conv2d_pass;

/* The extents of the weights, with those of groups first if there are some. */
int lsi_conv2d_weight_dims(const lsi_conv2d_shape *shape, dnnl_dims_t dims);

/* The layouts of the caller's tensors. */
ls_status lsi_conv2d_choose_layouts(const lsi_conv2d_shape *shape,
                                    lsi_conv2d_layouts *out);

/* The layouts for one pass: the same, or reordered before and after. */
ls_status lsi_conv2d_pass_layouts(const lsi_conv2d_shape *shape,
                                  lsi_conv2d_pass pass,
                                  lsi_conv2d_layouts chosen,
                                  lsi_conv2d_layouts *out);

/*
 * The primitive of one pass on tensors with these layouts. *out is the
 * caller's.
 */
ls_status lsi_conv2d_describe(const lsi_conv2d_shape *shape,
                              lsi_conv2d_pass pass, lsi_conv2d_layouts layouts,
                              dnnl_primitive_desc_t *out);

#endif
