/*
 * Activation checkpointing (Chen et al., Training Deep Nets with Sublinear
 * Memory Cost, 2016).
 *
 * The function runs on an inner tape, where aliases replace the inputs that
 * have gradients. The forward run only finds the parameters that the function
 * uses. Then the inner tape is reset, and the outer tape records one node with
 * inputs and parameters. Backward runs the function again with the same random
 * numbers, and walks the inner tape from the gradient of the result. Then it
 * gives the gradients of the aliases to the inputs. An alias's gradient starts
 * from the existing gradient of its input, so sums have the same order as
 * without recomputation.
 */
#include <assert.h>
#include <limits.h>

#include "base/error.h"
#include "base/memory.h"
#include "model/autograd/node.h"
#include "model/autograd/params.h"

typedef struct recomputation {
    ls_recompute_fn fn;
    void *context;
    int n_inputs; /* those of the function; parameters follow */
    lsi_rng_key random_key;
    uint64_t random_step, random_ops;
    ls_tape_samples samples;
    ls_dtype autocast;
} recomputation;

/* ---- the inner tape ------------------------------------------------------ */

static ls_status make_inner(ls_tape *tape)
{
    if (tape->inner != NULL)
        return LS_OK;
    LS_TRY(lsi_alloc_zeroed(&tape->inner, sizeof(ls_tape), LS_MEMORY_OTHER,
                            "a tape"));
    tape->inner->pool = tape->pool;
    tape->inner->outer = tape;
    tape->inner->training = true;
    return LS_OK;
}

/* Inputs with a gradient on the outer tape get one on the inner tape. */
static ls_status alias_inputs(ls_tape *tape, ls_tensor *const *inputs, int n,
                              ls_tensor ***out)
{
    ls_tape *const inner = tape->inner;
    void *block;
    LS_TRY(lsi_arena_alloc(&inner->arena, (size_t)n * sizeof(ls_tensor *) + 1,
                           &block));
    ls_tensor **const aliases = *out = block;
    for (int i = 0; i < n; i++) {
        aliases[i] = inputs[i];
        if (inputs[i] == NULL || lsi_tape_slot(tape, inputs[i]) == NULL)
            continue;
        LS_TRY(lsi_tensor_alias(inputs[i], tape->pool, &aliases[i]));
        LS_TRY(lsi_tape_own(inner, aliases[i]));
        LS_TRY(lsi_tape_add_slot(inner, aliases[i], -1));
    }
    return LS_OK;
}

/* Runs the function on the inner tape; *aliases are its inputs. */
static ls_status run_function(ls_tape *tape, const recomputation *c,
                              ls_tensor *const *inputs, ls_tensor ***aliases,
                              ls_tensor **result)
{
    ls_tape *const inner = tape->inner;
    assert(inner->n_nodes == 0 && inner->n_slots == 0);
    assert(inner->pool == tape->pool && inner->outer == tape);
    inner->random_key = c->random_key;
    inner->random_step = c->random_step;
    inner->random_ops = c->random_ops;
    inner->samples = c->samples;
    LS_TRY(ls_tape_set_autocast(inner, c->autocast));
    LS_TRY(alias_inputs(tape, inputs, c->n_inputs, aliases));
    *result = c->fn(c->context, inner, *aliases);
    LS_TRY(ls_tape_status(inner));
    if (*result != NULL)
        return LS_OK;
    return lsi_fail(LS_ERR_ARGUMENT,
                    "ls_recompute: the function returned NULL");
}

/* ---- backward ------------------------------------------------------------ */

/* Moves gradients between inputs and their aliases. */
static void move_grads(const ls_tape *from, ls_tensor *const *source,
                       const ls_tape *to, ls_tensor *const *target, int n)
{
    for (int i = 0; i < n; i++) {
        lsi_slot *const a =
            source[i] != NULL ? lsi_tape_slot(from, source[i]) : NULL;
        lsi_slot *const b =
            target[i] != NULL ? lsi_tape_slot(to, target[i]) : NULL;
        if (a == NULL || b == NULL || a->grad == NULL)
            continue;
        assert(b->grad == NULL);
        b->grad = a->grad;
        a->grad = NULL;
    }
}

static ls_status walk_again(ls_tape *tape, ls_node *node,
                            const recomputation *c)
{
    ls_tape *const inner = tape->inner;
    ls_tensor **aliases, *result;
    LS_TRY(run_function(tape, c, node->inputs, &aliases, &result));
    lsi_slot *const slot = lsi_tape_slot(inner, result);
    if (slot == NULL || slot->node < 0)
        return lsi_fail(
            LS_ERR_STATE,
            "ls_recompute: when the function ran again, it returned a result "
            "without a gradient; both runs must record the same operations");
    slot->grad = ls_tensor_retain(lsi_node_grad_output_raw(tape, node, 0));
    slot->watched = lsi_tape_slot(tape, ls_node_output(node, 0))->watched;
    if (!slot->watched) /* not read elsewhere */
        ls_tensor_free(&lsi_tape_slot(tape, ls_node_output(node, 0))->grad);
    slot->live = true;
    move_grads(tape, node->inputs, inner, aliases, c->n_inputs);
    LS_TRY(lsi_tape_walk_inner(inner, slot->node));
    move_grads(inner, aliases, tape, node->inputs, c->n_inputs);
    return LS_OK;
}

static ls_status recompute_backward(ls_tape *tape, ls_node *node)
{
    assert(tape->phase == LSI_TAPE_WALKING);
    tape->inner->again = true;
    const ls_status status = walk_again(tape, node, ls_node_state(node));
    tape->inner->again = false;
    ls_tape_reset(tape->inner);
    return status;
}

static const ls_function recompute = {"recompute", recompute_backward,
                                      sizeof(recomputation)};

/* ---- forward ------------------------------------------------------------- */

static bool holds(ls_tensor *const *tensors, int n, const ls_tensor *tensor)
{
    for (int i = 0; i < n; i++)
        if (tensors[i] == tensor)
            return true;
    return false;
}

/* Lists the inputs of the call, and each parameter that it trains once. */
static ls_status list_inputs(ls_tape *tape, ls_tensor *const *inputs, int n,
                             ls_tensor ***out, int *n_out)
{
    const ls_tape *const inner = tape->inner;
    size_t most = (size_t)n + 1;
    void *block;
    for (int k = 0; k < inner->n_nodes; k++)
        most += inner->nodes[k].n_inputs;
    LS_TRY(lsi_arena_alloc(&tape->arena, most * sizeof(ls_tensor *), &block));
    ls_tensor **const all = *out = block;
    *n_out = n;
    for (int i = 0; i < n; i++)
        all[i] = inputs[i];
    for (int k = 0; k < inner->n_nodes; k++) {
        const ls_node *const node = &inner->nodes[k];
        if (node->abandon != NULL)
            return lsi_fail(
                LS_ERR_UNSUPPORTED,
                "ls_recompute: the backward of %s is collective and cannot be "
                "repeated; call it outside the recomputed function",
                node->function->name);
        for (size_t i = 0; i < node->n_inputs; i++) {
            ls_tensor *const input = node->inputs[i];
            if (input != NULL && input->param != NULL &&
                input->param->grad != NULL && !holds(all, *n_out, input))
                all[(*n_out)++] = input;
        }
    }
    return LS_OK;
}

/* *result outlives the inner tape's reset, and belongs to the outer one. */
static ls_status run_forward(ls_tape *tape, const recomputation *c,
                             ls_tensor *const *inputs, ls_tensor **result,
                             ls_tensor ***all, int *n_all)
{
    ls_tensor **aliases;
    LS_TRY(run_function(tape, c, inputs, &aliases, result));
    LS_TRY(list_inputs(tape, inputs, c->n_inputs, all, n_all));
    LS_TRY(lsi_tape_own(tape, ls_tensor_retain(*result)));
    if (tape->inner->random_ops != c->random_ops)
        tape->random_was_used = true;
    tape->random_ops = tape->inner->random_ops;
    return LS_OK;
}

ls_tensor *ls_recompute(ls_tape *tape, ls_recompute_fn fn, void *context,
                        ls_tensor *const *inputs, size_t n_inputs)
{
    ls_tensor *result = NULL, **all;
    int n_all;
    if (!lsi_tape_given(tape, __func__) || tape->status != LS_OK)
        return NULL;
    if (fn == NULL)
        return ls_tape_fail(tape, LS_ERR_ARGUMENT, "ls_recompute: fn is NULL");
    if (n_inputs > 0 && !lsi_tape_has(tape, inputs, __func__, "inputs"))
        return NULL;
    if (n_inputs > INT_MAX)
        return ls_tape_fail(tape, LS_ERR_ARGUMENT,
                            "ls_recompute: got %zu inputs; the maximum is %d",
                            n_inputs, INT_MAX);
    if (!tape->training)
        return fn(context, tape, inputs);
    const recomputation c = {fn,
                             context,
                             (int)n_inputs,
                             tape->random_key,
                             tape->random_step,
                             tape->random_ops,
                             tape->samples,
                             ls_tape_autocast(tape)};
    ls_status status = make_inner(tape);
    if (status == LS_OK) {
        tape->inner->again = tape->again;
        status = run_forward(tape, &c, inputs, &result, &all, &n_all);
        ls_tape_reset(tape->inner);
    }
    if (status != LS_OK)
        return lsi_tape_stop(tape, status);
    return ls_tape_record(tape, &recompute, &c, all, (size_t)n_all, &result, 1,
                          NULL, 0);
}
