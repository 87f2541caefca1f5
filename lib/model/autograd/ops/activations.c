/*
 * Activations of transformers, s(z) = 1 / (1 + e^-z).
 *
 *     swiglu   y = a s(a) b      da = dy b s (1 + a (1 - s)), db = dy a s
 *     gelu     y = a s(z(a))     da = dy dy/da; z as in kernels/activations.h
 *
 * The inputs are saved; intermediate values are computed again. In mixed
 * precision results have the type of the inputs; arithmetic is f32.
 */
#include "base/error.h"
#include "model/autograd/ops/ops.h"

enum { A, B };

/* ---- swiglu -------------------------------------------------------------- */

/* The target of a gradient; scratch memory if the gradient is not needed. */
static ls_status open_target(ls_tape *tape, ls_node *node, int index,
                             lsi_target *target, lsi_mixed *out)
{
    LS_TRY(lsi_target_open(tape, node, index, LSI_LAYOUT_PLAIN, target));
    const ls_tensor *like = ls_node_saved(node, index);
    if (target->grad != NULL) {
        *out = lsi_op_mixed(target->out);
        return LS_OK;
    }
    void *scratch = ls_tape_scratch(tape, (size_t)like->count * sizeof(float));
    *out = (lsi_mixed){scratch, LS_F32};
    return scratch != NULL ? LS_OK : ls_tape_status(tape);
}

static ls_status swiglu_backward(ls_tape *tape, ls_node *node)
{
    const ls_tensor *a = ls_node_saved(node, A), *b = ls_node_saved(node, B);
    const ls_tensor *dy = ls_node_grad_output(tape, node, 0);
    lsi_target da = {0}, db = {0};
    lsi_mixed out[2];
    if (dy == NULL)
        return ls_tape_status(tape);
    LS_TRY(open_target(tape, node, A, &da, &out[A]));
    LS_TRY(open_target(tape, node, B, &db, &out[B]));
    const lsi_mixed in[] = {lsi_op_mixed(dy), lsi_op_mixed(a), lsi_op_mixed(b)};
    lsi_mixed_swiglu_backward(out, in, (size_t)a->count);
    LS_TRY(lsi_target_close(&da));
    return lsi_target_close(&db);
}

const ls_function lsi_op_swiglu = {"swiglu", swiglu_backward, 0};

ls_tensor *ls_swiglu(ls_tape *tape, ls_tensor *a, ls_tensor *b)
{
    ls_tensor *const in[] = {a, b};
    if (!lsi_op_begin_mixed(tape, &lsi_op_swiglu, in, 2) ||
        !lsi_op_check_equal(tape, &lsi_op_swiglu, a, b))
        return NULL;
    ls_tensor *const saved[] = {lsi_op_plain(tape, a), lsi_op_plain(tape, b)};
    ls_tensor *y = ls_tape_output(tape, a->dtype, a->ndim, a->shape);
    if (y == NULL)
        return NULL;
    lsi_mixed_swiglu(lsi_op_mixed(y), lsi_op_mixed(saved[A]),
                     lsi_op_mixed(saved[B]), (size_t)y->count);
    return ls_tape_record(tape, &lsi_op_swiglu, NULL, in, 2, &y, 1, saved, 2);
}

/* ---- gelu ---------------------------------------------------------------- */

static ls_status gelu_backward(ls_tape *tape, ls_node *node)
{
    const ls_tensor *a = ls_node_saved(node, A);
    const ls_tensor *dy = ls_node_grad_output(tape, node, 0);
    bool accumulate = false;
    const ls_tensor *da = ls_node_grad_input(tape, node, A, &accumulate);
    if (dy == NULL || da == NULL)
        return ls_tape_status(tape);
    lsi_mixed_gelu_backward(lsi_op_mixed(da), lsi_op_mixed(dy), lsi_op_mixed(a),
                            (size_t)a->count, accumulate);
    return LS_OK;
}

const ls_function lsi_op_gelu = {"gelu", gelu_backward, 0};

ls_tensor *ls_gelu(ls_tape *tape, ls_tensor *a)
{
    if (!lsi_op_begin_mixed(tape, &lsi_op_gelu, &a, 1))
        return NULL;
    ls_tensor *const saved[] = {lsi_op_plain(tape, a)};
    ls_tensor *y = ls_tape_output(tape, a->dtype, a->ndim, a->shape);
    if (y == NULL)
        return NULL;
    lsi_mixed_gelu(lsi_op_mixed(y), lsi_op_mixed(saved[A]), (size_t)y->count);
    return ls_tape_record(tape, &lsi_op_gelu, NULL, &a, 1, &y, 1, saved, 1);
}
