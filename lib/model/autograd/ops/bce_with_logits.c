/*
 * Binary cross-entropy of logits x and targets t, of equal shapes: y = mean of
 * max(x, 0) - x t + log(1 + e^-|x|); 0 for no elements.
 *
 *     dx = dy / n (1 / (1 + e^-x) - t)        dt = -dy / n x
 */
#include "array/compute/losses.h"
#include "base/error.h"
#include "model/autograd/ops/ops.h"

enum { LOGITS, TARGETS };

static ls_status backward_to(ls_tape *tape, ls_node *node, int index)
{
    const ls_tensor *x = ls_node_saved(node, LOGITS);
    const ls_tensor *dy = lsi_node_grad_output_raw(tape, node, 0);
    const size_t n = (size_t)x->count;
    lsi_target target = {0};
    LS_TRY(lsi_target_open(tape, node, index, LSI_LAYOUT_PLAIN, &target));
    if (target.grad == NULL || n == 0)
        return LS_OK;
    if (index == LOGITS)
        lsi_bce_backward(lsi_op_floats(target.out), lsi_op_floats(dy),
                         lsi_op_floats(x),
                         lsi_op_floats(ls_node_saved(node, TARGETS)), n);
    else
        lsi_bce_target_backward(lsi_op_floats(target.out), lsi_op_floats(dy),
                                lsi_op_floats(x), n);
    return lsi_target_close(&target);
}

static ls_status bce_with_logits_backward(ls_tape *tape, ls_node *node)
{
    LS_TRY(backward_to(tape, node, LOGITS));
    return backward_to(tape, node, TARGETS);
}

const ls_function lsi_op_bce_with_logits = {"bce_with_logits",
                                            bce_with_logits_backward, 0};

ls_tensor *ls_bce_with_logits(ls_tape *tape, ls_tensor *logits,
                              ls_tensor *targets)
{
    ls_tensor *inputs[] = {logits, targets};
    if (!lsi_op_begin_f32(tape, &lsi_op_bce_with_logits, inputs, 2) ||
        !lsi_op_check_equal(tape, &lsi_op_bce_with_logits, logits, targets))
        return NULL;
    ls_tensor *const saved[] = {lsi_op_plain(tape, inputs[LOGITS]),
                                lsi_op_plain(tape, inputs[TARGETS])};
    ls_tensor *y = ls_tape_output(tape, LS_F32, 0, NULL);
    if (y == NULL)
        return NULL;
    lsi_bce_forward(lsi_op_floats(y), lsi_op_floats(saved[LOGITS]),
                    lsi_op_floats(saved[TARGETS]), (size_t)logits->count);
    return ls_tape_record(tape, &lsi_op_bce_with_logits, NULL, inputs, 2, &y, 1,
                          saved, 2);
}
