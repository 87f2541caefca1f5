/*
 * Losses of two f32 tensors of equal shapes: means over their n elements, 0 for
 * n = 0.
 *
 *     mse_loss          y = mean of (a - b)^2
 *                       da = 2 dy / n (a - b)              db = -da
 *     bce_with_logits   binary cross-entropy of logits a and targets b,
 *                       y = mean of max(a, 0) - a b + log(1 + e^-|a|)
 *                       da = dy / n (1 / (1 + e^-a) - b)   db = -dy / n a
 */
#include "array/compute/losses.h"
#include "base/error.h"
#include "model/autograd/ops/ops.h"

enum { A, B };

static ls_status backward_to(ls_tape *tape, ls_node *node, int index)
{
    const ls_tensor *a = ls_node_saved(node, A), *b = ls_node_saved(node, B);
    const ls_tensor *dy = lsi_node_grad_output_raw(tape, node, 0);
    const size_t n = (size_t)a->count;
    lsi_target target = {0};
    LS_TRY(lsi_target_open(tape, node, index, LSI_LAYOUT_PLAIN, &target));
    if (target.grad == NULL || n == 0)
        return LS_OK;
    float *const out = lsi_op_floats(target.out);
    if (node->function == &lsi_op_mse_loss)
        lsi_mse_backward(out, lsi_op_floats(dy), index == A ? 1.0 : -1.0,
                         lsi_op_floats(a), lsi_op_floats(b), n);
    else if (index == A)
        lsi_bce_backward(out, lsi_op_floats(dy), lsi_op_floats(a),
                         lsi_op_floats(b), n);
    else
        lsi_bce_target_backward(out, lsi_op_floats(dy), lsi_op_floats(a), n);
    return lsi_target_close(&target);
}

static ls_status backward(ls_tape *tape, ls_node *node)
{
    LS_TRY(backward_to(tape, node, A));
    return backward_to(tape, node, B);
}

const ls_function lsi_op_mse_loss = {"mse_loss", backward, 0};
const ls_function lsi_op_bce_with_logits = {"bce_with_logits", backward, 0};

static ls_tensor *loss(ls_tape *tape, const ls_function *function, ls_tensor *a,
                       ls_tensor *b)
{
    ls_tensor *inputs[] = {a, b};
    if (!lsi_op_begin_f32(tape, function, inputs, 2) ||
        !lsi_op_check_equal(tape, function, a, b))
        return NULL;
    ls_tensor *const saved[] = {lsi_op_plain(tape, inputs[A]),
                                lsi_op_plain(tape, inputs[B])};
    ls_tensor *y = ls_tape_output(tape, LS_F32, 0, NULL);
    if (y == NULL)
        return NULL;
    const bool mse = function == &lsi_op_mse_loss;
    (mse ? lsi_mse_forward
         : lsi_bce_forward)(lsi_op_floats(y), lsi_op_floats(saved[A]),
                            lsi_op_floats(saved[B]), (size_t)a->count);
    return ls_tape_record(tape, function, NULL, inputs, 2, &y, 1, saved, 2);
}

ls_tensor *ls_mse_loss(ls_tape *tape, ls_tensor *a, ls_tensor *b)
{
    return loss(tape, &lsi_op_mse_loss, a, b);
}

ls_tensor *ls_bce_with_logits(ls_tape *tape, ls_tensor *logits,
                              ls_tensor *targets)
{
    return loss(tape, &lsi_op_bce_with_logits, logits, targets);
}
