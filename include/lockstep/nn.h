/*
 * Layers: parameters with the usual initialisation, and a forward function.
 *
 * A layer is a small struct of the caller's. Its init function adds parameters
 * to a set (see ls_params) under "<name>.weight", "<name>.bias" and so on;
 * their values are set by ls_params_allocate. The tensors belong to the
 * set. Layers without parameters are operations of autograd.h.
 */
#ifndef LOCKSTEP_NN_H
#define LOCKSTEP_NN_H

#include "lockstep/autograd.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Parameters of a layer: flags, joined by |. */
typedef unsigned ls_layer_flags;
enum {
    LS_LAYER_DEFAULT = 0,
    LS_LAYER_NO_BIAS = 1 << 0,  /* of a linear layer */
    LS_LAYER_NO_AFFINE = 1 << 1 /* of a normalisation: no weight, no bias */
};

/*
 * y = x weight^T + bias, where x is (..., in) and y (..., out). Weight and bias
 * begin uniform in +-1/sqrt(in). The parameters are NAME.weight and NAME.bias.
 */
typedef struct ls_linear_layer {
    ls_tensor *weight; /* (out, in) */
    ls_tensor *bias;   /* (out), or NULL */
} ls_linear_layer;

LS_API LS_MUST_CHECK ls_status ls_linear_layer_init(ls_linear_layer *layer,
                                                    ls_params *params,
                                                    const char *name,
                                                    int64_t in, int64_t out,
                                                    ls_layer_flags flags);
LS_API ls_tensor *ls_linear_layer_forward(const ls_linear_layer *layer,
                                          ls_tape *tape, ls_tensor *x);

/*
 * Weight and bias uniform in +-1/sqrt(in / groups * kernel^2). With no_bias in
 * the options, as before a batch normalization, the layer has no bias. NULL for
 * the options means the defaults.
 */
typedef struct ls_conv2d_layer {
    ls_tensor *weight;         /* (out, in / groups, kernel, kernel) */
    ls_tensor *bias;           /* (out), or NULL */
    ls_conv2d_options options; /* last, as it may grow */
} ls_conv2d_layer;

LS_API LS_MUST_CHECK ls_status ls_conv2d_layer_init(
    ls_conv2d_layer *layer, ls_params *params, const char *name, int64_t in,
    int64_t out, int kernel, const ls_conv2d_options *options);
LS_API ls_tensor *ls_conv2d_layer_forward(const ls_conv2d_layer *layer,
                                          ls_tape *tape, ls_tensor *x);

/*
 * Weight 1, bias 0, running mean 0, running variance 1; for
 * (N, features) and (N, features, ...). args.relu may be set, and
 * ls_batch_norm called with a copy of args that has a residual.
 */
typedef struct ls_batch_norm_layer {
    ls_batch_norm_args args; /* eps 1e-5, momentum 0.1; last, it may grow */
} ls_batch_norm_layer;

LS_API LS_MUST_CHECK ls_status ls_batch_norm_layer_init(
    ls_batch_norm_layer *layer, ls_params *params, const char *name,
    int64_t features, ls_layer_flags flags);
LS_API ls_tensor *ls_batch_norm_layer_forward(const ls_batch_norm_layer *layer,
                                              ls_tape *tape, ls_tensor *x);

/* Over the last dimension, of `features`. Weight 1, bias 0; eps 1e-5. */
typedef struct ls_layer_norm_layer {
    ls_tensor *weight, *bias; /* (features) */
    double eps;
} ls_layer_norm_layer;

LS_API LS_MUST_CHECK ls_status
ls_layer_norm_layer_init(ls_layer_norm_layer *layer, ls_params *params,
                         const char *name, int64_t features);
LS_API ls_tensor *ls_layer_norm_layer_forward(const ls_layer_norm_layer *layer,
                                              ls_tape *tape, ls_tensor *x);

/* Weight 1, bias 0; eps 1e-5. */
typedef struct ls_group_norm_layer {
    ls_tensor *weight, *bias; /* (channels), or NULL */
    int groups;               /* divides channels */
    double eps;
} ls_group_norm_layer;

LS_API LS_MUST_CHECK ls_status ls_group_norm_layer_init(
    ls_group_norm_layer *layer, ls_params *params, const char *name,
    int64_t channels, int groups, ls_layer_flags flags);
LS_API ls_tensor *ls_group_norm_layer_forward(const ls_group_norm_layer *layer,
                                              ls_tape *tape, ls_tensor *x);

/* How many rows have their largest logit at the label. Any real type. */
LS_API LS_MUST_CHECK ls_status ls_count_correct(const ls_tensor *logits,
                                                const ls_tensor *labels,
                                                int64_t *correct);

#ifdef __cplusplus
}
#endif

#endif
