/*
 * What backward functions inside the library use beyond the public header:
 * gradients in any memory layout, and without copies.
 */
#ifndef LS_MODEL_AUTOGRAD_NODE_H
#define LS_MODEL_AUTOGRAD_NODE_H

#include "base/partition.h"
#include "model/autograd/tape.h"

/* As ls_node_grad_output, in the layout that it happens to have. */
ls_tensor *lsi_node_grad_output_raw(ls_tape *tape, const ls_node *node,
                                    size_t index);

/*
 * As ls_node_grad_output, in this layout. *exclusive (may be NULL) says that
 * nobody else will read it, so that the caller may overwrite it.
 */
ls_status lsi_node_grad_output_in(ls_tape *tape, const ls_node *node,
                                  size_t index, lsi_layout layout,
                                  ls_tensor **out, bool *exclusive);

/*
 * Where a backward function writes the gradient of an input if it can only
 * overwrite. `grad` is NULL if nobody needs it; else write all of `out`, which
 * is dense and in the layout asked for, and close.
 */
typedef struct lsi_target {
    ls_tensor *grad;
    ls_tensor *out; /* grad, or a temporary that the close adds to it */
} lsi_target;

ls_status lsi_target_open(ls_tape *tape, ls_node *node, size_t index,
                          lsi_layout layout, lsi_target *target);

/*
 * As lsi_target_open; if it can be, the memory of output 0's gradient becomes
 * that of the input's, so that an element-wise backward works in place. What
 * was read from the output's gradient before stays where it is, and may be
 * `out`.
 */
ls_status lsi_target_open_over(ls_tape *tape, ls_node *node, size_t index,
                               lsi_layout layout, lsi_target *target);
ls_status lsi_target_close(const lsi_target *target);

/*
 * Hands output 0's gradient over to an input as it is, in the input's shape,
 * without a copy. False if that cannot be: the input is a parameter, or has a
 * gradient already, or somebody else reads the output's.
 */
bool lsi_node_hand_over(ls_tape *tape, ls_node *node, size_t index);

/*
 * In how many slices (params.h) an operation with this parameter computes what
 * depends on the size of the batch.
 */
int lsi_slices_of(const ls_tape *tape, const ls_tensor *param);

/* The rows of slice j of a batch of n. */
static inline lsi_range lsi_slice_rows(int64_t n, int slices, int slice)
{
    return lsi_partition((size_t)n, (size_t)slices, (size_t)slice);
}

/*
 * Where a backward function writes a slice's part of the gradient of an input,
 * or adds it; data is NULL if nobody needs it. If the input has no slices, all
 * go to the same place, one after the other.
 */
typedef struct lsi_slice_grad {
    void *data;
    ls_dtype dtype;
    bool accumulate;
} lsi_slice_grad;

ls_status lsi_node_grad_slice(ls_tape *tape, ls_node *node, size_t index,
                              int slice, lsi_slice_grad *out);

/*
 * A tensor of a node in another layout: itself, or a temporary copy. It must
 * be dense.
 */
ls_status lsi_tape_in_layout(ls_tape *tape, ls_tensor *tensor,
                             lsi_layout layout, ls_tensor **out);

#endif
