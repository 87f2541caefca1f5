/*
 * The tape: operations that remember how to differentiate themselves.
 *
 * An operation takes a tape and tensors and returns a new tensor. The tape
 * owns what it returns until ls_tape_reset; to keep a tensor longer, take a
 * reference with ls_tensor_retain. Memory of released tensors is reused, so
 * that a training step that repeats allocates nothing after the first.
 *
 * Errors stick to the tape: an operation that fails returns NULL and records
 * the status; every later operation, and any that is given NULL, returns NULL
 * at once; ls_backward returns the first error. A model is therefore written
 * as plain expressions and checked once:
 *
 *     ls_tensor *h = ls_relu(tape, ls_linear(tape, x, w1, b1));
 *     h = ls_linear(tape, h, w2, b2);
 *     ls_tensor *loss = ls_cross_entropy(tape, h, y, NULL);
 *     ls_status status = ls_backward(tape, loss, 1.0);
 *     ...
 *     ls_tape_reset(tape);
 *
 * A tape belongs to one thread. Everything here is local (not collective).
 */
#ifndef LOCKSTEP_AUTOGRAD_H
#define LOCKSTEP_AUTOGRAD_H

#include "lockstep/params.h"
#include "lockstep/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_tape ls_tape;

/* ---- the tape ------------------------------------------------------------ */

/* An empty tape that records. On success *out is the caller's. */
LS_API LS_MUST_CHECK ls_status ls_tape_new(ls_tape **out);
LS_API void ls_tape_free(ls_tape **tape);

/*
 * Forgets every recorded operation, gives back the tensors it owns and clears
 * its error. Call it after each step.
 */
LS_API void ls_tape_reset(ls_tape *tape);

/*
 * Whether operations are recorded and dropout drops (true at first). With
 * false, operations only compute: evaluation.
 */
LS_API void ls_tape_set_training(ls_tape *tape, bool training);
LS_API bool ls_tape_is_training(const ls_tape *tape);

/*
 * Sets the source of the tape's random numbers. They are a pure function of
 * (seed, stream, step, index of the operation, index of the element). All three
 * are 0 at first. A reset after dropout advances the step, so each step has
 * different masks. Give each rank a different stream, and set the step after
 * resuming from a checkpoint.
 */
LS_API void ls_tape_set_random(ls_tape *tape, uint64_t seed, uint64_t stream,
                               uint64_t step);

/*
 * The samples of this rank's batch. N ranks have places 0..N-1, and the rank at
 * place p has samples p, p + N, p + 2N, ... of the global batch. They are cut
 * into slices (ls_params_set_slices): the i-th of them is in slice i mod
 * slices. The batch has the samples of slice 0 first, then those of slice 1,
 * and so on; ls_tape_sample names the sample at each position.
 */
typedef struct ls_tape_samples {
    size_t struct_size; /* sizeof, or 0: as in 0.1 (docs/reference/abi.md) */
    int64_t count;      /* samples of this rank's batch */
    int place, places;  /* 0 <= place < places; places 0: 1 */
    int slices;         /* of the set whose parameters are used; 0: 1 */
} ls_tape_samples;

/* No sample, of one rank, in one slice. */
#define LS_TAPE_SAMPLES_INIT                                                   \
    {                                                                          \
        sizeof(ls_tape_samples), 0, 0, 1, 1                                    \
    }

/*
 * Sets which samples the tape's rows are, from the next operation on; NULL
 * forgets them. Outlives resets. From then on the first dimension of a batch is
 * a multiple of `count`, and each sample has equally many of its rows. Dropout
 * masks then depend on the sample and on the element's place in it; the sample
 * takes the place of ls_tape_set_random's stream. So they depend neither on the
 * rank nor on the number of ranks. Until the loss, operations must compute
 * samples one by one, or synchronize as ls_sync_bn does.
 */
LS_API LS_EXPERIMENTAL LS_MUST_CHECK ls_status
ls_tape_set_samples(ls_tape *tape, const ls_tape_samples *samples);

/* The sample of the global batch at a position 0..count-1; -1 for another. */
LS_API LS_EXPERIMENTAL int64_t ls_tape_sample(const ls_tape_samples *samples,
                                              int64_t position);

/*
 * Mixed precision, from the next operation on. With LS_BF16 or LS_F16, matrix
 * products (ls_linear, ls_matmul, ls_conv2d, ls_attention) round their factors
 * to that type, forward and backward. They add up in f32 and return tensors of
 * that type. ls_relu, ls_swiglu, ls_gelu and ls_batch_norm of images keep the
 * type they are given; every other operation computes in f32 and returns f32.
 * Parameters and their gradients stay f32. LS_F32, as at first, ends it.
 * Outlives resets. LS_ERR_UNSUPPORTED for a half type with portable bits
 * (ls_set_bits).
 */
LS_API LS_MUST_CHECK ls_status ls_tape_set_autocast(ls_tape *tape,
                                                    ls_dtype dtype);
LS_API ls_dtype ls_tape_autocast(const ls_tape *tape);

/* The first error since the last reset, with its message, or LS_OK. */
LS_API LS_MUST_CHECK ls_status ls_tape_status(const ls_tape *tape);

/*
 * Walks the tape once, in reverse, from `loss` (one element), whose gradient is
 * taken to be `scale`. Gradients of parameters are added to their buffers
 * (see ls_params_zero_grad). A tape can be walked once; then reset it.
 */
LS_API LS_MUST_CHECK ls_status ls_backward(ls_tape *tape, ls_tensor *loss,
                                           double scale);

/*
 * Asks for the gradient of a tensor that is not a parameter, such as an input;
 * to be called before an operation uses it. After ls_backward, ls_tape_grad
 * returns the gradient (owned by the tape), or NULL if the loss did not depend
 * on the tensor.
 */
LS_API LS_MUST_CHECK ls_status ls_tape_watch(ls_tape *tape, ls_tensor *tensor);
LS_API ls_tensor *ls_tape_grad(ls_tape *tape, const ls_tensor *tensor);

/* ---- operations ---------------------------------------------------------- */
/*
 * All are f32 unless said otherwise or in mixed precision (see
 * ls_tape_set_autocast). Shapes are in the comments; a mismatch is
 * LS_ERR_SHAPE with the operation and both shapes.
 */

/*
 * Element-wise. Unequal shapes broadcast as in NumPy. They are compared from
 * the last dimension on; a tensor is repeated where its extent is 1 or its
 * dimension is missing. Its gradient is the sum over the repetitions.
 */
LS_API ls_tensor *ls_add(ls_tape *tape, ls_tensor *a, ls_tensor *b);
LS_API ls_tensor *ls_sub(ls_tape *tape, ls_tensor *a, ls_tensor *b);
LS_API ls_tensor *ls_mul(ls_tape *tape, ls_tensor *a, ls_tensor *b);
LS_API ls_tensor *ls_div(ls_tape *tape, ls_tensor *a, ls_tensor *b);

/*
 * a where the condition, u8, is not 0, else b. The three broadcast as above.
 * The condition has no gradient, and an element that was not taken has gradient
 * 0.
 */
LS_API ls_tensor *ls_where(ls_tape *tape, ls_tensor *condition, ls_tensor *a,
                           ls_tensor *b);

/*
 * Whether a < b, a <= b, a > b, a >= b and a = b, element by element, as a
 * condition of ls_where. The result is u8: 1 where it holds and 0 elsewhere,
 * also where one is NaN. The two broadcast as above. The result has no
 * gradient.
 *
 *     limit = ls_scalar(tape, 10);
 *     y = ls_where(tape, ls_gt(tape, x, limit), limit, x);
 */
LS_API ls_tensor *ls_lt(ls_tape *tape, ls_tensor *a, ls_tensor *b);
LS_API ls_tensor *ls_le(ls_tape *tape, ls_tensor *a, ls_tensor *b);
LS_API ls_tensor *ls_gt(ls_tape *tape, ls_tensor *a, ls_tensor *b);
LS_API ls_tensor *ls_ge(ls_tape *tape, ls_tensor *a, ls_tensor *b);
LS_API ls_tensor *ls_eq(ls_tape *tape, ls_tensor *a, ls_tensor *b);

/*
 * A tensor of no dimensions with this value, rounded to f32, to compare with
 * and for all other operations that broadcast. It has no gradient.
 */
LS_API ls_tensor *ls_scalar(ls_tape *tape, double value);

/* a repeated to a shape that it broadcasts to, as above. */
LS_API ls_tensor *ls_expand(ls_tape *tape, ls_tensor *a, int ndim,
                            const int64_t *shape);

/*
 * -a, and |a|, element by element. The gradient of |a| is 0 where a is 0.
 */
LS_API ls_tensor *ls_neg(ls_tape *tape, ls_tensor *a);
LS_API ls_tensor *ls_abs(ls_tape *tape, ls_tensor *a);

/* a times a number; and max(a, 0). */
LS_API ls_tensor *ls_scale(ls_tape *tape, ls_tensor *a, double factor);
LS_API ls_tensor *ls_relu(ls_tape *tape, ls_tensor *a);

/*
 * a to the power of a number, which is rounded to f32, as C's pow: NaN for a
 * number that is not whole and a below 0, 1 for 0 whatever a is. The gradient
 * is dy exponent a^(exponent - 1), infinite where that is, and 0 for an
 * exponent of 0.
 */
LS_API ls_tensor *ls_pow(ls_tape *tape, ls_tensor *a, double exponent);

/*
 * a, but at least min and at most max; NaN stays. -INFINITY and INFINITY are no
 * bounds; min > max, or NaN, is LS_ERR_ARGUMENT. The gradient is that of y
 * where min <= a <= max, bounds included, and 0 elsewhere.
 */
LS_API ls_tensor *ls_clamp(ls_tape *tape, ls_tensor *a, double min, double max);

/*
 * e^a, the natural logarithm, the square root, the hyperbolic tangent, and 1 /
 * (1 + e^-a), element by element. As in C, the result is NaN where none is
 * real, and infinite beyond the range of f32.
 */
LS_API ls_tensor *ls_exp(ls_tape *tape, ls_tensor *a);
LS_API ls_tensor *ls_log(ls_tape *tape, ls_tensor *a);
LS_API ls_tensor *ls_sqrt(ls_tape *tape, ls_tensor *a);
LS_API ls_tensor *ls_tanh(ls_tape *tape, ls_tensor *a);
LS_API ls_tensor *ls_sigmoid(ls_tape *tape, ls_tensor *a);

/*
 * Each element is 0 with probability p, else divided by 1-p; the identity when
 * the tape is not training. 0 <= p < 1.
 */
LS_API ls_tensor *ls_dropout(ls_tape *tape, ls_tensor *a, double p);

/* Over all elements, to a tensor of no dimensions. The mean of none is 0. */
LS_API ls_tensor *ls_sum(ls_tape *tape, ls_tensor *a);
LS_API ls_tensor *ls_mean(ls_tape *tape, ls_tensor *a);

/* Whether the reduced axes stay, with extent 1. */
typedef enum ls_axes_kept {
    LS_AXES_DROP, /* the result has no such axes */
    LS_AXES_KEEP  /* they stay, with an extent of 1 */
} ls_axes_kept;

/*
 * Over n axes, each of 0..ndim-1 and at most once; another is LS_ERR_ARGUMENT.
 * The sum of nothing, and the mean, is 0; the largest of nothing is
 * LS_ERR_SHAPE, and NaN where one is NaN. The largest elements, if there are
 * several equal ones, share the gradient evenly (as PyTorch's amax).
 */
LS_API ls_tensor *ls_sum_axes(ls_tape *tape, ls_tensor *a, const int *axes,
                              size_t n, ls_axes_kept kept);
LS_API ls_tensor *ls_mean_axes(ls_tape *tape, ls_tensor *a, const int *axes,
                               size_t n, ls_axes_kept kept);
LS_API ls_tensor *ls_max_axes(ls_tape *tape, ls_tensor *a, const int *axes,
                              size_t n, ls_axes_kept kept);

/*
 * The elements of a that indices, i64, name along an axis:
 * y[i][j][k] = a[i][indices[i][j][k]][k] for axis 1 (NumPy's take_along_axis,
 * PyTorch's gather). The extents of indices, and so of the result, are those of
 * a in all dimensions but the axis. An index that is not in 0..extent-1 is
 * LS_ERR_ARGUMENT. The indices must not change until backward, which checks
 * them again. The gradient of an element that is named several times is
 * the sum.
 */
LS_API ls_tensor *ls_take_along(ls_tape *tape, ls_tensor *a, ls_tensor *indices,
                                int axis);

/*
 * Where the largest elements along an axis are, i64. The axis must not be empty
 * (LS_ERR_SHAPE). The first of several equal ones; the first NaN if there is
 * one. It has no gradient. With LS_AXES_KEEP the result suits ls_take_along.
 */
LS_API ls_tensor *ls_argmax(ls_tape *tape, ls_tensor *a, int axis,
                            ls_axes_kept kept);

/*
 * Views that backward sees through; see the functions of ls_tensor. Unlike
 * ls_tensor_view, ls_reshape copies what is not contiguous.
 */
LS_API ls_tensor *ls_reshape(ls_tape *tape, ls_tensor *a, int ndim,
                             const int64_t *shape);
LS_API ls_tensor *ls_flatten(ls_tape *tape, ls_tensor *a); /* (N, rest) */
LS_API ls_tensor *ls_narrow(ls_tape *tape, ls_tensor *a, int dim, int64_t begin,
                            int64_t end);
LS_API ls_tensor *ls_transpose(ls_tape *tape, ls_tensor *a, int x, int y);

/* As ls_narrow, of elements begin, begin + step, ... below end; step >= 1. */
LS_API ls_tensor *ls_slice(ls_tape *tape, ls_tensor *a, int dim, int64_t begin,
                           int64_t end, int64_t step);

/*
 * A new tensor of n >= 1 parts, one after another along an axis; their other
 * extents are equal. Of any one type, which the result has; in mixed precision
 * real types may differ, and the result is f32.
 */
LS_API ls_tensor *ls_concat(ls_tape *tape, ls_tensor *const *parts, size_t n,
                            int axis);

/* Another type: f32, bf16, f16. The gradient comes back in a's type. */
LS_API ls_tensor *ls_cast(ls_tape *tape, ls_tensor *a, ls_dtype dtype);

/*
 * (..., M, K) x (..., K, N) -> (..., M, N): as many products as the dimensions
 * before the matrices say, which broadcast as those of ls_add. All of one type:
 * f32, bf16 or f16. Transposed views are multiplied as they lie.
 */
LS_API ls_tensor *ls_matmul(ls_tape *tape, ls_tensor *a, ls_tensor *b);

/*
 * x (..., in), weight (out, in), bias (out) or NULL -> (..., out). x, weight
 * and result all of one type: f32, bf16 or f16; the bias f32.
 */
LS_API ls_tensor *ls_linear(ls_tape *tape, ls_tensor *x, ls_tensor *weight,
                            ls_tensor *bias);

/*
 * Cross-correlation. x (N, C, H, W), weight (O, C / groups, KH, KW), bias (O)
 * or NULL -> (N, O, OH, OW) with
 *     OH = (H + 2 padding - dilation (KH - 1) - 1) / stride + 1
 * and OW alike. Group g of the outputs sees group g of the channels only, so
 * groups divides both C and O; groups = C is a depthwise convolution. With
 * relu = true the result is clipped at 0 in the same pass.
 */
typedef struct ls_conv2d_options {
    size_t struct_size; /* sizeof, or 0: as in 0.1 (docs/reference/abi.md) */
    int stride;         /* 0: 1 */
    int padding;        /* zeros on each side */
    int dilation;       /* from one tap of the filter to the next; 0: 1 */
    int groups;         /* 0: 1 */
    bool relu;
    bool no_bias; /* for ls_conv2d_layer_init; ls_conv2d has bias = NULL */
} ls_conv2d_options;

/* Stride 1, no padding, with a bias. */
#define LS_CONV2D_OPTIONS_INIT                                                 \
    {                                                                          \
        sizeof(ls_conv2d_options), 1, 0, 1, 1, false, false                    \
    }

/* NULL for the options means the defaults. */
LS_API ls_tensor *ls_conv2d(ls_tape *tape, ls_tensor *x, ls_tensor *weight,
                            ls_tensor *bias, const ls_conv2d_options *options);

/* Where the windows of a pooling are. */
typedef struct ls_pool2d_options {
    size_t struct_size; /* sizeof, or 0: as in 0.1 (docs/reference/abi.md) */
    int stride;         /* 0: size */
    int padding;        /* on each side */
} ls_pool2d_options;

/* Windows side by side, no padding. */
#define LS_POOL2D_OPTIONS_INIT                                                 \
    {                                                                          \
        sizeof(ls_pool2d_options), 0, 0                                        \
    }

/*
 * The maximum or mean of windows of size x size (1..15), `stride` apart. x is
 * (N, C, H, W), f32. `padding` on each side is at most half of size. The result
 * is (N, C, OH, OW) with OH = (H + 2 padding - size) / stride + 1; OW follows
 * from W. Padding counts as zeros in means, which are sums divided by size^2,
 * and is never a maximum. NULL for the options means the defaults.
 */
LS_API ls_tensor *ls_max_pool2d(ls_tape *tape, ls_tensor *x, int size,
                                const ls_pool2d_options *options);
LS_API ls_tensor *ls_avg_pool2d(ls_tape *tape, ls_tensor *x, int size,
                                const ls_pool2d_options *options);

/* The mean of each channel: (N, C, H, W) -> (N, C), f32. H W must not be 0. */
LS_API ls_tensor *ls_global_avg_pool2d(ls_tape *tape, ls_tensor *x);

/* The arguments of ls_batch_norm but x. */
typedef struct ls_batch_norm_args {
    size_t struct_size; /* sizeof, or 0: as in 0.1 (docs/reference/abi.md) */
    ls_tensor *weight, *bias;              /* (C) or NULL */
    ls_tensor *running_mean, *running_var; /* (C) */
    double eps;                            /* >= 0; 0: 1e-5 */
    double momentum;                       /* 0..1; 0 keeps running ones */
    bool relu;
    ls_tensor *residual; /* or NULL */
} ls_batch_norm_args;

/* eps 1e-5, momentum 0.1; without tensors, of which two must be set. */
#define LS_BATCH_NORM_ARGS_INIT                                                \
    {                                                                          \
        sizeof(ls_batch_norm_args), NULL, NULL, NULL, NULL, 1e-5, 0.1, false,  \
            NULL                                                               \
    }

/*
 * Batch normalization of x (N, C, ...), of at least two dimensions, over all
 * but C: y = (x - mean) / sqrt(var + eps). Weight, bias and residual (of x's
 * shape) may be NULL: y = y * weight + bias + residual. With `relu`, y is
 * clipped at 0. All is one pass, so a block of a residual network ends with
 * relu(bn(x) + residual). Training: batch statistics (biased variance);
 * running_mean and running_var move towards them by `momentum` (running_var
 * with the unbiased variance). Otherwise the running ones are used. A batch of
 * one number for each channel has variance 0 and leaves running_var unchanged;
 * an empty batch leaves both unchanged. For statistics over all ranks see
 * ls_sync_bn_new. In mixed precision images keep their type, and (N, C) is f32.
 */
LS_API ls_tensor *ls_batch_norm(ls_tape *tape, ls_tensor *x,
                                const ls_batch_norm_args *args);

/*
 * Group normalization of x (N, C, ...), each image separately. The channels
 * form `groups` equal ranges, each normalized over its channels and all pixels:
 * y = (x - mean) / sqrt(var + eps), with the biased variance. Weight and bias,
 * (C), may be NULL: y = y * weight + bias. In mixed precision x keeps its type.
 */
LS_API ls_tensor *ls_group_norm(ls_tape *tape, ls_tensor *x, int groups,
                                ls_tensor *weight, ls_tensor *bias, double eps);

/* ---- operations of transformers ------------------------------------------ */
/* Attention itself: lockstep/attention.h. */

/*
 * weight (V, D), indices i64 of any shape (...) -> the rows they name, (...,
 * D). An index that is not in 0..V-1 is LS_ERR_ARGUMENT. The indices must not
 * change until backward, which checks them again.
 */
LS_API ls_tensor *ls_embedding(ls_tape *tape, ls_tensor *weight,
                               ls_tensor *indices);

/* x (..., D), weight (D): x / sqrt(mean of x^2 over the row + eps) * weight. */
LS_API ls_tensor *ls_rms_norm(ls_tape *tape, ls_tensor *x, ls_tensor *weight,
                              double eps);

/*
 * x (..., D), weight and bias (D): (x - mean) / sqrt(var + eps) * weight + bias
 * with mean and (biased) variance of the row.
 */
LS_API ls_tensor *ls_layer_norm(ls_tape *tape, ls_tensor *x, ls_tensor *weight,
                                ls_tensor *bias, double eps);

/* Which elements of a head of d are pair k, and where its rotation is stored.
 */
typedef enum ls_rope_layout {
    LS_ROPE_PAIRS,           /* 2k and 2k + 1, in place */
    LS_ROPE_PAIRS_TO_HALVES, /* 2k and 2k + 1; stored at k and d/2 + k */
    LS_ROPE_HALVES           /* k and d/2 + k, in place, as Llama's weights */
} ls_rope_layout;

/*
 * Rotary positions of x (batch, rows, heads, d). Pair k of row t is rotated by
 * the angle whose cosine and sine the tables hold at (t, k). The tables, (at
 * least rows, d/2), have no gradient.
 */
LS_API ls_tensor *ls_rope(ls_tape *tape, ls_tensor *x, ls_tensor *cosine,
                          ls_tensor *sine, ls_rope_layout layout);

/*
 * e^x over the sum of e^x along one axis, 0..ndim-1, of any size. NaN where the
 * largest along the axis is infinite or NaN. Another axis is LS_ERR_ARGUMENT.
 */
LS_API ls_tensor *ls_softmax(ls_tape *tape, ls_tensor *x, int axis);

/* The logarithm of that, also where e^x would be 0. */
LS_API ls_tensor *ls_log_softmax(ls_tape *tape, ls_tensor *x, int axis);

/* a / (1 + e^-a) * b, equal shapes. */
LS_API ls_tensor *ls_swiglu(ls_tape *tape, ls_tensor *a, ls_tensor *b);

/* a / (1 + e^-a), also known as swish; f32. */
LS_API ls_tensor *ls_silu(ls_tape *tape, ls_tensor *a);

/* GELU by tanh: a (1 + tanh(sqrt(2 / pi) (a + 0.044715 a^3))) / 2 */
LS_API ls_tensor *ls_gelu(ls_tape *tape, ls_tensor *a);

/*
 * The exact GELU, a (1 + erf(a / sqrt(2))) / 2, which is PyTorch's default;
 * f32. The two differ by at most 0.0005.
 */
LS_API ls_tensor *ls_gelu_erf(ls_tape *tape, ls_tensor *a);

/* ---- losses -------------------------------------------------------------- */

typedef struct ls_cross_entropy_options {
    size_t struct_size; /* sizeof, or 0: as in 0.1 (docs/reference/abi.md) */
    /*
     * Label smoothing: the share of the 1 of a row's label that all C classes
     * get evenly, the label's own among them; 0..1.
     */
    double smoothing;
} ls_cross_entropy_options;

/* No label smoothing. */
#define LS_CROSS_ENTROPY_OPTIONS_INIT                                          \
    {                                                                          \
        sizeof(ls_cross_entropy_options), 0                                    \
    }

/*
 * Mean over rows of -log softmax(logits)[label]. logits (N, C), labels i64
 * (N), each in [0, C). The labels must not change until backward, which checks
 * them again. N = 0 gives 0. NULL for the options means the defaults.
 */
LS_API ls_tensor *ls_cross_entropy(ls_tape *tape, ls_tensor *logits,
                                   ls_tensor *labels,
                                   const ls_cross_entropy_options *options);

/*
 * Binary cross-entropy: the mean over all elements of -t log s - (1 - t) log(1
 * - s), s = 1 / (1 + e^-x), of logits x and targets t, usually 0 or 1. Equal
 * shapes; 0 without elements.
 */
LS_API ls_tensor *ls_bce_with_logits(ls_tape *tape, ls_tensor *logits,
                                     ls_tensor *targets);

/* Mean of (a - b)^2 over all elements; 0 if there are none. Equal shapes. */
LS_API ls_tensor *ls_mse_loss(ls_tape *tape, ls_tensor *a, ls_tensor *b);

/* ---- less memory --------------------------------------------------------- */

/*
 * Activation checkpointing: the result of a function of its inputs, without the
 * values in between. The tape keeps inputs and result only, and backward calls
 * the function again. Gradients, and random numbers such as those of dropout,
 * have the same bits as without; running statistics are updated once. The cost
 * is one more forward pass of the function, and memory for one call at a time.
 *
 * The function computes on the tape that it is given, from the inputs that it
 * is given, in their order, from parameters, and from tensors that have no
 * gradient; both times the same. It may call ls_recompute. `context` must stay
 * as it is until backward has run. Operations whose backward is collective
 * (ls_sync_bn) are LS_ERR_UNSUPPORTED. On a tape that is not training it is a
 * plain call.
 */
typedef ls_tensor *(*ls_recompute_fn)(void *context, ls_tape *tape,
                                      ls_tensor *const *inputs);
LS_API ls_tensor *ls_recompute(ls_tape *tape, ls_recompute_fn fn, void *context,
                               ls_tensor *const *inputs, size_t n_inputs);

/* ---- operations of your own ---------------------------------------------- */
/*
 * An operation computes its outputs first (into tensors from ls_tape_output)
 * and then records itself. The library's own operations, synchronised batch
 * normalisation among them, are written this way.
 */

typedef struct ls_node ls_node;

typedef struct ls_function {
    const char *name;
    /*
     * Computes the gradients of the inputs. Called at most once for a node, in
     * reverse order of recording, if any output has a gradient.
     */
    ls_status (*backward)(ls_tape *tape, ls_node *node);
    size_t state_bytes; /* of the state given to ls_tape_record, copied */
} ls_function;

/* A new tensor owned by the tape, undefined contents; NULL on error. */
LS_API LS_EXPERIMENTAL ls_tensor *
ls_tape_output(ls_tape *tape, ls_dtype dtype, int ndim, const int64_t *shape);

/*
 * Records a node. inputs are what backward differentiates with respect to;
 * saved are any further tensors that it needs (both are kept alive). Inputs
 * may be NULL where optional. Recording is skipped when the tape is not
 * training or when no input needs a gradient. Returns outputs[0], or NULL.
 */
LS_API LS_EXPERIMENTAL ls_tensor *
ls_tape_record(ls_tape *tape, const ls_function *function, const void *state,
               ls_tensor *const *inputs, size_t n_inputs,
               ls_tensor *const *outputs, size_t n_outputs,
               ls_tensor *const *saved, size_t n_saved);

/*
 * Makes the tape fail with this status, unless it has failed before; returns
 * NULL. For operations.
 */
LS_API LS_EXPERIMENTAL ls_tensor *ls_tape_fail(ls_tape *tape, ls_status status,
                                               const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* For backward functions. */
LS_API LS_EXPERIMENTAL const void *ls_node_state(const ls_node *node);
LS_API LS_EXPERIMENTAL ls_tensor *ls_node_input(const ls_node *node,
                                                size_t index);
LS_API LS_EXPERIMENTAL ls_tensor *ls_node_output(const ls_node *node,
                                                 size_t index);
LS_API LS_EXPERIMENTAL ls_tensor *ls_node_saved(const ls_node *node,
                                                size_t index);
/* The gradient of an output (contiguous), or NULL if it has none. */
LS_API LS_EXPERIMENTAL ls_tensor *
ls_node_grad_output(ls_tape *tape, ls_node *node, size_t index);
/*
 * The tensor into which the gradient of an input goes; NULL if nobody needs
 * it. If *accumulate comes back true, add to what is there, else overwrite.
 */
LS_API LS_EXPERIMENTAL ls_tensor *ls_node_grad_input(ls_tape *tape,
                                                     ls_node *node,
                                                     size_t index,
                                                     bool *accumulate);
/* Scratch memory for the duration of one backward call; NULL on error. */
LS_API LS_EXPERIMENTAL void *ls_tape_scratch(ls_tape *tape, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
