/*
 * Backward: one walk over the nodes in reverse.
 *
 * Before the walk, the nodes that the loss depends on are marked, and the uses
 * of each parameter in these nodes are counted. So the walk knows the last use
 * of a parameter: then its gradient is final, and the hook is called.
 * Everything that a node holds is released as soon as the node is done.
 */
#include <assert.h>
#include <stdio.h>

#include "base/error.h"
#include "model/autograd/node.h"
#include "model/autograd/ops/ops.h"
#include "model/autograd/params.h"
#include "observe/memory_record.h"
#include "observe/spans.h"

/* ---- before the walk ----------------------------------------------------- */

static bool any_output_live(const ls_tape *tape, const ls_node *node)
{
    for (size_t i = 0; i < node->n_outputs; i++) {
        const lsi_slot *slot = lsi_tape_slot(tape, node->outputs[i]);
        if (slot != NULL && slot->live)
            return true;
    }
    return false;
}

/* Nodes are in order of recording: a node's inputs are made before it. */
static void mark_live(ls_tape *tape, int last)
{
    for (int n = last; n >= 0; n--) {
        ls_node *node = &tape->nodes[n];
        node->live = any_output_live(tape, node);
        for (size_t i = 0; node->live && i < node->n_inputs; i++) {
            if (node->inputs[i] == NULL)
                continue;
            lsi_slot *slot = lsi_tape_slot(tape, node->inputs[i]);
            assert(slot == NULL || slot->node < n);
            if (slot != NULL)
                slot->live = true;
        }
    }
}

/* Input i of a node if it is a trained parameter, else NULL. */
static lsi_param *trained(const ls_node *node, size_t i)
{
    lsi_param *param = node->inputs[i] != NULL ? node->inputs[i]->param : NULL;
    return param != NULL && param->grad != NULL ? param : NULL;
}

static void count_uses(const ls_tape *tape, int last, bool forget)
{
    for (int n = last; n >= 0; n--) {
        const ls_node *node = &tape->nodes[n];
        for (size_t i = 0; node->live && i < node->n_inputs; i++) {
            lsi_param *param = trained(node, i);
            if (param != NULL)
                param->pending = forget ? 0 : param->pending + 1;
        }
    }
}

/* ---- the walk ------------------------------------------------------------ */

static bool any_output_has_grad(const ls_tape *tape, const ls_node *node)
{
    for (size_t i = 0; i < node->n_outputs; i++) {
        const lsi_slot *slot = lsi_tape_slot(tape, node->outputs[i]);
        if (slot != NULL && slot->grad != NULL)
            return true;
    }
    return false;
}

static ls_status announce(const ls_node *node)
{
    for (size_t i = 0; i < node->n_inputs; i++) {
        lsi_param *param = trained(node, i);
        assert(param == NULL || param->pending > 0);
        if (param != NULL && --param->pending == 0)
            LS_TRY(lsi_param_ready(param));
    }
    return LS_OK;
}

static void free_output_grads(const ls_tape *tape, const ls_node *node)
{
    for (size_t i = 0; i < node->n_outputs; i++) {
        lsi_slot *slot = lsi_tape_slot(tape, node->outputs[i]);
        if (slot != NULL && !slot->watched)
            ls_tensor_free(&slot->grad);
    }
}

/* The memory record attributes gradients to the layer of their operation. */
static ls_status run_backward(ls_tape *tape, ls_node *node)
{
    lsi_memory_place before = {0};
    const bool recorded = lsi_memory_is_recorded();
    if (recorded)
        before = lsi_memory_enter_operation(node->path, node->function->name,
                                            " backward");
    const ls_status status = node->function->backward(tape, node);
    if (recorded)
        lsi_memory_leave_operation(before);
    return status;
}

/*
 * Backward reads parameters among the inputs, and views of them, except the
 * table of an embedding.
 */
static ls_status provide_inputs(const ls_node *node)
{
    if (node->function == &lsi_op_embedding)
        return LS_OK;
    for (size_t i = 0; i < node->n_inputs; i++) {
        const ls_tensor *const input = node->inputs[i];
        if (input != NULL && input->storage != NULL &&
            input->storage->supply != NULL)
            LS_TRY(lsi_param_provide_again(
                (lsi_param *)(void *)input->storage->supply));
    }
    return LS_OK;
}

static ls_status visit_node(ls_tape *tape, ls_node *node)
{
    const bool inner = tape->outer != NULL;
    assert(tape->phase == LSI_TAPE_WALKING && !tape->holds_temps);
    node->abandon = NULL; /* backward runs now */
    if (any_output_has_grad(tape, node)) {
        const uint64_t began = lsi_span_begin();
        LS_TRY(provide_inputs(node));
        LS_TRY(run_backward(tape, node));
        lsi_tensor_used();
        LS_TRY(tape->status);
        lsi_span_operation(node->function->name, " backward", began);
    }
    lsi_tape_free_temps(tape);
    free_output_grads(tape, node);
    if (!inner)
        LS_TRY(announce(node));
    lsi_tape_release_node(node);
    return LS_OK;
}

static ls_status walk(ls_tape *tape, int last)
{
    for (int n = last; n >= 0; n--) {
        ls_node *node = &tape->nodes[n];
        if (node->live)
            LS_TRY(visit_node(tape, node));
    }
    return LS_OK;
}

ls_status lsi_tape_walk_inner(ls_tape *inner, int last)
{
    assert(inner->outer->phase == LSI_TAPE_WALKING);
    assert(inner->phase == LSI_TAPE_RECORDING);
    inner->phase = LSI_TAPE_WALKING;
    mark_live(inner, last);
    return walk(inner, last);
}

void lsi_tape_abandon(ls_tape *tape, ls_status status)
{
    lsi_error error = {.status = LS_OK};
    const bool walking = tape->phase == LSI_TAPE_WALKING;
    assert(status != LS_OK);
    if (tape->phase == LSI_TAPE_WALKED)
        return;
    (void)lsi_error_keep(&error, status);
    for (int n = tape->n_nodes - 1; n >= 0; n--) {
        const ls_node *node = &tape->nodes[n];
        if (node->abandon == NULL || (walking && !node->live))
            continue;
        node->abandon(node, status);
        (void)lsi_error_again(&error);
    }
    tape->phase = LSI_TAPE_WALKED;
}

/* ---- ls_backward --------------------------------------------------------- */

static ls_status check_loss(const ls_tape *tape, const ls_tensor *loss)
{
    LS_TRY(ls_tape_status(tape));
    LS_TRY(lsi_tape_check_recording(tape, "ls_backward"));
    if (loss == NULL)
        return lsi_fail(LS_ERR_ARGUMENT, "ls_backward: loss is NULL");
    if (loss->count != 1)
        return lsi_fail(LS_ERR_SHAPE,
                        "ls_backward: the loss has shape %s; it must have one "
                        "element",
                        lsi_shape_of(loss).text);
    if (lsi_tape_slot(tape, loss) == NULL)
        return lsi_fail(
            LS_ERR_STATE,
            "ls_backward: the loss does not depend on a trainable parameter or "
            "a watched tensor%s",
            tape->training
                ? ""
                : "; the tape is not training: call ls_tape_set_training(tape, "
                  "true) before the forward pass");
    return LS_OK;
}

static ls_status seed(const ls_tape *tape, lsi_slot *slot, double scale)
{
    const ls_tensor *loss = slot->tensor;
    assert(slot->grad == NULL);
    LS_TRY(lsi_tape_make(tape, loss->dtype, loss->ndim, loss->shape,
                         LSI_LAYOUT_PLAIN, &slot->grad));
    slot->live = true;
    return ls_tensor_fill(slot->grad, scale);
}

ls_status ls_backward(ls_tape *tape, ls_tensor *loss, double scale)
{
    LS_NEED(tape);
    ls_status status = check_loss(tape, loss);
    if (status != LS_OK) {
        lsi_tape_stop(tape, status);
        lsi_tape_abandon(tape, status);
        return status;
    }
    lsi_slot *slot = lsi_tape_slot(tape, loss);
    const int last = slot->node;
    LSI_SPAN(PHASE, "backward", 0, 0);
    tape->phase = LSI_TAPE_WALKING;
    tape->op_began = 0;
    LS_TRY_GOTO(status, seed(tape, slot, scale), stop);
    mark_live(tape, last);
    count_uses(tape, last, true);
    count_uses(tape, last, false);
    LS_TRY_GOTO(status, walk(tape, last), stop);
    tape->phase = LSI_TAPE_WALKED;
    return LS_OK;

stop:
    lsi_tape_stop(tape, status);
    lsi_tape_free_temps(tape);
    lsi_tape_abandon(tape, status);
    return status;
}
