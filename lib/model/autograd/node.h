/*
 * Functions beyond the public header, for backward functions inside the
 * library: gradients in any memory layout, and without copies.
 */
#ifndef LS_MODEL_AUTOGRAD_NODE_H
#define LS_MODEL_AUTOGRAD_NODE_H

#include "base/partition.h"
#include "model/autograd/tape.h"

/* As ls_node_grad_output, in whichever layout it has. */
ls_tensor *lsi_node_grad_output_raw(ls_tape *tape, const ls_node *node,
                                    size_t index);

/*
 * As ls_node_grad_output, in this layout. *exclusive (may be NULL) is true if
 * the caller is the last reader and may overwrite the gradient.
 */
ls_status lsi_node_grad_output_in(ls_tape *tape, const ls_node *node,
                                  size_t index, lsi_layout layout,
                                  ls_tensor **out, bool *exclusive);

/*
 * The target for the gradient of an input, for a backward function that can
 * only overwrite. `grad` is NULL if the gradient is not needed. Else write all
 * of `out`, which is dense and in the requested layout, and close.
 */
typedef struct lsi_target {
    ls_tensor *grad;
    ls_tensor *out; /* grad, or a temporary that closing adds to grad */
} lsi_target;

ls_status lsi_target_open(ls_tape *tape, ls_node *node, size_t index,
                          lsi_layout layout, lsi_target *target);

/*
 * As lsi_target_open. If possible, the input's gradient reuses the memory of
 * output 0's gradient, so that an element-wise backward works in place. An
 * output gradient that was read before stays where it is, and may be `out`.
 */
ls_status lsi_target_open_over(ls_tape *tape, ls_node *node, size_t index,
                               lsi_layout layout, lsi_target *target);
ls_status lsi_target_close(const lsi_target *target);

/*
 * Passes output 0's gradient to an input without a copy, in the input's shape.
 * False if this is impossible: the input is a parameter or already has a
 * gradient, or another reader needs the output's gradient.
 */
bool lsi_node_hand_over(ls_tape *tape, ls_node *node, size_t index);

/* How the rows of a batch, its first dimension, are cut into slices. */
typedef struct lsi_slicing {
    size_t samples; /* the rows themselves if the tape does not know samples */
    size_t each;    /* rows of a sample */
    int slices;
} lsi_slicing;

/*
 * Cuts `rows` rows into the slices (params/grads.h) in which `function`, an
 * operation with this parameter, computes values that depend on the batch size.
 * The tape fails if the rows are not those of its samples.
 */
bool lsi_slicing_of(ls_tape *tape, const ls_function *function,
                    const ls_tensor *param, int64_t rows, lsi_slicing *out);

/* The rows of a slice. */
static inline lsi_range lsi_slicing_rows(const lsi_slicing *s, int slice)
{
    const lsi_range samples =
        lsi_partition(s->samples, (size_t)s->slices, (size_t)slice);
    return (lsi_range){samples.begin * s->each, samples.end * s->each};
}

/* The rows of slice j of a batch of n samples. */
static inline lsi_range lsi_slice_rows(int64_t n, int slices, int slice)
{
    return lsi_partition((size_t)n, (size_t)slices, (size_t)slice);
}

/* Whether a parameter's gradient must be cut into slices. */
bool lsi_node_is_sliced(const ls_node *node, size_t index);

/*
 * The target for a slice's part of an input's gradient, which a backward
 * function writes or adds. data is NULL if the gradient is not needed. For an
 * input without slices, all parts go to the same place, one after the other.
 */
typedef struct lsi_slice_grad {
    void *data;
    ls_dtype dtype;
    bool accumulate;
} lsi_slice_grad;

ls_status lsi_node_grad_slice(ls_tape *tape, ls_node *node, size_t index,
                              int slice, lsi_slice_grad *out);

/*
 * For an operation that adds up the gradient of an input over samples, where
 * this input is not a parameter: LS_ERR_UNSUPPORTED if slices must stay apart.
 */
ls_status lsi_node_check_sum(const ls_tape *tape, const ls_node *node);

/*
 * A tensor of a node in another layout: itself, or a temporary copy. It must
 * be dense.
 */
ls_status lsi_tape_in_layout(ls_tape *tape, ls_tensor *tensor,
                             lsi_layout layout, ls_tensor **out);

#endif
