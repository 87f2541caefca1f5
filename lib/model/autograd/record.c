/* Recording operations as nodes. */
#include <assert.h>
#include <limits.h>
#include <string.h>

#include "base/error.h"
#include "model/autograd/tape.h"
#include "observe/memory_record.h"
#include "observe/spans.h"

/* A copy of n tensors in the arena, each with a reference (NULLs stay). */
static ls_status copy_references(ls_tape *tape, ls_tensor *const *tensors,
                                 size_t n, ls_tensor ***out)
{
    if (n == 0)
        return LS_OK;
    void *block = NULL;
    LS_TRY(lsi_arena_alloc(&tape->arena, n * sizeof *tensors, &block));
    *out = block;
    for (size_t i = 0; i < n; i++)
        (*out)[i] = ls_tensor_retain(tensors[i]);
    return LS_OK;
}

static void drop(ls_tensor **tensors, size_t *n)
{
    for (size_t i = 0; i < *n; i++)
        ls_tensor_free(&tensors[i]);
    *n = 0;
}

void lsi_tape_release_node(ls_node *node)
{
    drop(node->inputs, &node->n_inputs);
    drop(node->outputs, &node->n_outputs);
    drop(node->saved, &node->n_saved);
}

static ls_status keep_state(ls_tape *tape, ls_node *node, const void *state)
{
    const size_t bytes = node->function->state_bytes;
    if (bytes == 0)
        return LS_OK;
    LS_TRY(lsi_arena_alloc(&tape->arena, bytes, &node->state));
    memcpy(node->state, state, bytes);
    return LS_OK;
}

typedef struct record {
    const ls_function *function;
    const void *state;
    ls_tensor *const *inputs, *const *outputs, *const *saved;
    size_t n_inputs, n_outputs, n_saved;
} record;

/* The node is counted at once, so that a reset frees it after a failure. */
static ls_status add_node(ls_tape *tape, ls_node **out)
{
    LS_TRY(lsi_tape_grow(&tape->nodes, &tape->nodes_capacity, tape->n_nodes + 1,
                         sizeof(ls_node)));
    *out = &tape->nodes[tape->n_nodes++];
    **out = (ls_node){0};
    return LS_OK;
}

static ls_status fill_node(ls_tape *tape, ls_node *node, const record *r)
{
    node->function = r->function;
    if (lsi_memory_is_recorded())
        node->path = lsi_memory_path();
    LS_TRY(keep_state(tape, node, r->state));
    LS_TRY(copy_references(tape, r->inputs, r->n_inputs, &node->inputs));
    node->n_inputs = r->n_inputs;
    LS_TRY(copy_references(tape, r->outputs, r->n_outputs, &node->outputs));
    node->n_outputs = r->n_outputs;
    LS_TRY(copy_references(tape, r->saved, r->n_saved, &node->saved));
    node->n_saved = r->n_saved;
    return LS_OK;
}

static ls_status record_node(ls_tape *tape, const record *r)
{
    ls_node *node = NULL;
    assert(tape->training && tape->phase == LSI_TAPE_RECORDING);
    LS_TRY(add_node(tape, &node));
    LS_TRY(fill_node(tape, node, r));
    for (size_t i = 0; i < r->n_outputs; i++) {
        if (lsi_dtype_is_real(r->outputs[i]->dtype))
            LS_TRY(lsi_tape_add_slot(tape, r->outputs[i], tape->n_nodes - 1));
    }
    return LS_OK;
}

static bool any_needed(const ls_tape *tape, ls_tensor *const *inputs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (lsi_tape_needs(tape, inputs[i]))
            return true;
    }
    return false;
}

static ls_status check_outputs(const ls_function *function,
                               ls_tensor *const *outputs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (outputs[i] == NULL)
            return lsi_fail(LS_ERR_ARGUMENT, "%s: output %zu is NULL",
                            function->name, i);
        if (outputs[i]->tape != NULL || outputs[i]->param != NULL)
            return lsi_fail(LS_ERR_ARGUMENT,
                            "%s: output %zu is already recorded; create each "
                            "output with ls_tape_output",
                            function->name, i);
    }
    return LS_OK;
}

/* An inner tape cannot give a gradient to a tensor of the outer tape. */
static ls_status check_inputs(const ls_tape *tape, const record *r)
{
    for (size_t i = 0; i < r->n_inputs && tape->outer != NULL; i++) {
        if (r->inputs[i] != NULL && r->inputs[i]->tape == tape->outer)
            return lsi_fail(LS_ERR_ARGUMENT,
                            "%s: the function given to ls_recompute uses a "
                            "tensor of the tape that is not one of its inputs; "
                            "pass this tensor as an input",
                            r->function->name);
    }
    return LS_OK;
}

/* The name of a required argument that is NULL, or NULL. */
static const char *missing_part(const record *r)
{
    if (r->function == NULL)
        return "function";
    if (r->function->backward == NULL)
        return "function->backward";
    if (r->function->state_bytes > 0 && r->state == NULL)
        return "state";
    if (r->n_inputs > 0 && r->inputs == NULL)
        return "inputs";
    if (r->n_outputs > 0 && r->outputs == NULL)
        return "outputs";
    return r->n_saved > 0 && r->saved == NULL ? "saved" : NULL;
}

static ls_status check_counts(const record *r)
{
    const size_t counts[] = {r->n_inputs, r->n_outputs, r->n_saved};
    for (int i = 0; i < 3; i++) {
        if (counts[i] > INT_MAX)
            return lsi_fail(LS_ERR_ARGUMENT,
                            "%s: a list has %zu tensors; the maximum is %d",
                            r->function->name, counts[i], INT_MAX);
    }
    return LS_OK;
}

ls_tensor *ls_tape_record(ls_tape *tape, const ls_function *function,
                          const void *state, ls_tensor *const *inputs,
                          size_t n_inputs, ls_tensor *const *outputs,
                          size_t n_outputs, ls_tensor *const *saved,
                          size_t n_saved)
{
    const record r = {function, state,    inputs,    outputs,
                      saved,    n_inputs, n_outputs, n_saved};
    if (!lsi_tape_given(tape, __func__))
        return NULL;
    if (tape->status != LS_OK)
        return lsi_tape_stop(tape, tape->status);
    const char *const missing = missing_part(&r);
    if (missing != NULL)
        return ls_tape_fail(tape, LS_ERR_ARGUMENT, "ls_tape_record: %s is NULL",
                            missing);
    ls_status status = lsi_tape_check_recording(tape, function->name);
    if (status == LS_OK)
        status = check_counts(&r);
    if (status == LS_OK)
        status = check_outputs(function, outputs, n_outputs);
    if (status == LS_OK)
        status = check_inputs(tape, &r);
    if (status == LS_OK && tape->training && any_needed(tape, inputs, n_inputs))
        status = record_node(tape, &r);
    if (status != LS_OK)
        return lsi_tape_stop(tape, status);
    if (lsi_memory_is_recorded())
        lsi_memory_claim(function->name);
    lsi_tape_free_temps(tape);
    lsi_tensor_used();
    lsi_span_operation(function->name, "", tape->op_began);
    tape->op_began = 0;
    return n_outputs > 0 ? outputs[0] : NULL;
}
