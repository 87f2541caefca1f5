/* A backward function's view of its node. */
#include "model/autograd/node.h"

#include "array/compute/array.h"
#include <assert.h>

#include "base/error.h"
#include "model/autograd/params.h"

/* ---- contents ------------------------------------------------------------ */

static ls_tensor *at(ls_tensor *const *tensors, size_t n, size_t index)
{
    return index < n ? tensors[index] : NULL;
}

const void *ls_node_state(const ls_node *node)
{
    return node != NULL ? node->state : NULL;
}

ls_tensor *ls_node_input(const ls_node *node, size_t index)
{
    return node != NULL ? at(node->inputs, node->n_inputs, index) : NULL;
}

ls_tensor *ls_node_output(const ls_node *node, size_t index)
{
    return node != NULL ? at(node->outputs, node->n_outputs, index) : NULL;
}

ls_tensor *ls_node_saved(const ls_node *node, size_t index)
{
    return node != NULL ? at(node->saved, node->n_saved, index) : NULL;
}

/* ---- gradients of outputs ------------------------------------------------ */

static lsi_slot *output_slot(const ls_tape *tape, const ls_node *node,
                             size_t index)
{
    const ls_tensor *output = ls_node_output(node, index);
    return output != NULL ? lsi_tape_slot(tape, output) : NULL;
}

ls_tensor *lsi_node_grad_output_raw(ls_tape *tape, const ls_node *node,
                                    size_t index)
{
    const lsi_slot *slot = output_slot(tape, node, index);
    return slot != NULL ? slot->grad : NULL;
}

ls_tensor *ls_node_grad_output(ls_tape *tape, ls_node *node, size_t index)
{
    if (tape == NULL)
        return NULL;
    ls_tensor *grad = lsi_node_grad_output_raw(tape, node, index);
    if (grad == NULL)
        return NULL;
    const ls_status status = lsi_tensor_plain(grad);
    return status == LS_OK ? grad : lsi_tape_stop(tape, status);
}

ls_status lsi_node_grad_output_in(ls_tape *tape, const ls_node *node,
                                  size_t index, lsi_layout layout,
                                  ls_tensor **out, bool *exclusive)
{
    const lsi_slot *slot = output_slot(tape, node, index);
    LS_TRY(lsi_tensor_set_layout(slot->grad, layout));
    *out = slot->grad;
    if (exclusive != NULL)
        *exclusive = !slot->watched;
    return LS_OK;
}

/* ---- gradients of inputs ------------------------------------------------- */

/* A parameter's gradient is plain and always there. */
static ls_tensor *param_grad(lsi_param *param, bool *accumulate)
{
    if (param->grad == NULL)
        return NULL;
    lsi_param_slice(param, 0, accumulate);
    return param->grad;
}

static ls_status grad_input(ls_tape *tape, const ls_node *node, size_t index,
                            lsi_layout layout, ls_tensor **grad,
                            bool *accumulate)
{
    *grad = NULL;
    const ls_tensor *input = ls_node_input(node, index);
    if (input == NULL)
        return LS_OK;
    if (lsi_node_is_sliced(node, index))
        return lsi_fail(
            LS_ERR_UNSUPPORTED,
            "%s cannot cut the gradient of '%s' into %d slices; use 1 slice "
            "per rank, or another operation",
            node->function->name, input->param->name,
            input->param->set->storage.slices);
    if (input->param != NULL) {
        *grad = param_grad(input->param, accumulate);
        return LS_OK;
    }
    lsi_slot *slot = lsi_tape_slot(tape, input);
    if (slot == NULL)
        return LS_OK;
    *accumulate = slot->grad != NULL;
    if (slot->grad != NULL)
        LS_TRY(lsi_tensor_set_layout(slot->grad, layout));
    else
        LS_TRY(lsi_tape_make(tape, input->dtype, input->ndim, input->shape,
                             layout, &slot->grad));
    *grad = slot->grad;
    return LS_OK;
}

ls_tensor *ls_node_grad_input(ls_tape *tape, ls_node *node, size_t index,
                              bool *accumulate)
{
    if (!lsi_tape_has(tape, accumulate, __func__, "accumulate"))
        return NULL;
    ls_tensor *grad = NULL;
    const ls_status status =
        grad_input(tape, node, index, LSI_LAYOUT_PLAIN, &grad, accumulate);
    return status == LS_OK ? grad : lsi_tape_stop(tape, status);
}

bool lsi_node_is_sliced(const ls_node *node, size_t index)
{
    const ls_tensor *const input = ls_node_input(node, index);
    return input != NULL && input->param != NULL &&
           input->param->grad != NULL && input->param->set->storage.slices > 1;
}

ls_status lsi_node_check_sum(const ls_tape *tape, const ls_node *node)
{
    if (tape->samples.slices <= 1)
        return LS_OK;
    return lsi_fail(LS_ERR_UNSUPPORTED,
                    "%s sums a gradient over the samples of %d slices into a "
                    "tensor that is not a parameter; use 1 slice per rank, or "
                    "pass the parameter itself",
                    node->function->name, tape->samples.slices);
}

ls_status lsi_node_grad_slice(ls_tape *tape, ls_node *node, size_t index,
                              int slice, lsi_slice_grad *out)
{
    ls_tensor *grad = NULL;
    const ls_tensor *const input = ls_node_input(node, index);
    lsi_param *const param = input != NULL ? input->param : NULL;
    assert(slice >= 0 && slice < LSI_MAX_SLICES);
    *out = (lsi_slice_grad){0};
    if (param != NULL && param->grad != NULL) {
        out->data = lsi_param_slice(param, slice, &out->accumulate);
        out->dtype = LS_F32;
        return LS_OK;
    }
    LS_TRY(grad_input(tape, node, index, LSI_LAYOUT_PLAIN, &grad,
                      &out->accumulate));
    if (grad != NULL)
        LS_TRY(lsi_node_check_sum(tape, node));
    if (grad != NULL)
        *out = (lsi_slice_grad){lsi_tensor_raw(grad), grad->dtype,
                                out->accumulate};
    return LS_OK;
}

/*
 * A parameter's gradient is plain; a gradient in another layout is added to it.
 */
ls_status lsi_target_open(ls_tape *tape, ls_node *node, size_t index,
                          lsi_layout layout, lsi_target *target)
{
    bool accumulate = false;
    LS_TRY(grad_input(tape, node, index, layout, &target->grad, &accumulate));
    target->out = target->grad;
    if (target->grad == NULL)
        return LS_OK;
    const ls_tensor *grad = target->grad;
    if (lsi_tensor_layout(grad) != layout && !accumulate) {
        lsi_array_zero(lsi_tensor_raw(grad), grad->dtype, (size_t)grad->count);
        accumulate = true;
    }
    if (!accumulate)
        return LS_OK;
    return lsi_tape_temp(tape, grad->dtype, grad->ndim, grad->shape, layout,
                         &target->out);
}

ls_status lsi_target_open_over(ls_tape *tape, ls_node *node, size_t index,
                               lsi_layout layout, lsi_target *target)
{
    if (!lsi_node_hand_over(tape, node, index))
        return lsi_target_open(tape, node, index, layout, target);
    const ls_tensor *input = ls_node_input(node, index);
    target->grad = target->out = lsi_tape_slot(tape, input)->grad;
    return lsi_tensor_set_layout(target->grad, layout);
}

ls_status lsi_target_close(const lsi_target *target)
{
    if (target->grad == target->out)
        return LS_OK;
    assert(target->out->dtype == target->grad->dtype &&
           target->out->count == target->grad->count);
    LS_TRY(lsi_tensor_set_layout(target->out, lsi_tensor_layout(target->grad)));
    lsi_array_accumulate(lsi_tensor_raw(target->grad),
                         lsi_tensor_raw(target->out), target->grad->dtype,
                         (size_t)target->grad->count);
    return LS_OK;
}

bool lsi_node_hand_over(ls_tape *tape, ls_node *node, size_t index)
{
    lsi_slot *from = output_slot(tape, node, 0);
    const ls_tensor *input = ls_node_input(node, index);
    lsi_slot *to = input != NULL ? lsi_tape_slot(tape, input) : NULL;
    if (from == NULL || to == NULL || from->grad == NULL || from->watched ||
        to->grad != NULL || from->tensor->dtype != input->dtype)
        return false;
    const bool reshape = !lsi_shape_equal(from->grad, input);
    if (reshape && lsi_tensor_plain(from->grad) != LS_OK)
        return false;
    if (reshape &&
        lsi_view_reshape(from->grad, input->ndim, input->shape) != LS_OK)
        return false;
    to->grad = from->grad;
    from->grad = NULL;
    return true;
}

/* ---- temporaries --------------------------------------------------------- */

ls_status lsi_tape_in_layout(ls_tape *tape, ls_tensor *tensor,
                             lsi_layout layout, ls_tensor **out)
{
    if (lsi_tensor_layout(tensor) == layout) {
        *out = tensor;
        return LS_OK;
    }
    LS_TRY(lsi_tape_temp(tape, tensor->dtype, tensor->ndim, tensor->shape,
                         layout, out));
    if (tensor->count == 0)
        return LS_OK;
    return lsi_reorder(lsi_tensor_raw(*out), layout, lsi_tensor_raw(tensor),
                       lsi_tensor_layout(tensor), tensor->dtype, tensor->shape);
}
