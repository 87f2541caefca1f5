/*
 * Activations of transformers, s(z) = 1 / (1 + e^-z).
 *
 *     swiglu   y = a s(a) b      da = dy b s (1 + a (1 - s)), db = dy a s
 *     gelu     y = a s(z(a))     da = dy dy/da; z as in kernels/activations.h
 *
 * The inputs are saved, and what was computed of them computed again. In mixed
 * precision results have the type of the inputs; arithmetic is f32.
 */
#include "autograd/ops/ops.h"
#include "autograd/span.h"
#include "base/error.h"
#include "kernels/kernels.h"

enum { A, B };

/* ---- swiglu -------------------------------------------------------------- */

static void swiglu_block(const void *context, float *const *p, size_t n)
{
    (void)context;
    lsi_kernels_get()->swiglu(p[0], p[1], p[2], n);
}

static void swiglu_backward_block(const void *context, float *const *p,
                                  size_t n)
{
    (void)context;
    lsi_kernels_get()->swiglu_backward(p[0], p[1], p[2], p[3], p[4], n);
}

/* Where a gradient goes; scratch memory if nobody needs it. */
static ls_status open_target(ls_tape *tape, ls_node *node, int index,
                             lsi_target *target, lsi_mixed *out)
{
    LS_TRY(lsi_target_open(tape, node, index, LSI_LAYOUT_PLAIN, target));
    const ls_tensor *like = ls_node_saved(node, index);
    if (target->grad != NULL) {
        *out = lsi_op_out(target->out);
        return LS_OK;
    }
    void *scratch = ls_tape_scratch(tape, (size_t)like->count * sizeof(float));
    *out = (lsi_mixed){scratch, LS_F32, LSI_MIXED_OUT};
    return scratch != NULL ? LS_OK : ls_tape_status(tape);
}

static ls_status close_target(const lsi_target *target)
{
    return target->grad != NULL ? lsi_target_close(target) : LS_OK;
}

static ls_status swiglu_backward(ls_tape *tape, ls_node *node)
{
    const ls_tensor *a = ls_node_saved(node, A), *b = ls_node_saved(node, B);
    const ls_tensor *dy = ls_node_grad_output(tape, node, 0);
    lsi_target da = {0}, db = {0};
    lsi_mixed arrays[5];
    if (dy == NULL)
        return ls_tape_status(tape);
    LS_TRY(open_target(tape, node, A, &da, &arrays[0]));
    LS_TRY(open_target(tape, node, B, &db, &arrays[1]));
    arrays[2] = lsi_op_in(dy);
    arrays[3] = lsi_op_in(a);
    arrays[4] = lsi_op_in(b);
    lsi_span_mixed(arrays, 5, (size_t)a->count, swiglu_backward_block, NULL);
    LS_TRY(close_target(&da));
    return close_target(&db);
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
    const lsi_mixed arrays[] = {lsi_op_out(y), lsi_op_in(saved[A]),
                                lsi_op_in(saved[B])};
    lsi_span_mixed(arrays, 3, (size_t)y->count, swiglu_block, NULL);
    return ls_tape_record(tape, &lsi_op_swiglu, NULL, in, 2, &y, 1, saved, 2);
}

/* ---- gelu ---------------------------------------------------------------- */

static void gelu_block(const void *context, float *const *p, size_t n)
{
    (void)context;
    lsi_kernels_get()->gelu(p[0], p[1], n);
}

static void gelu_backward_block(const void *context, float *const *p, size_t n)
{
    const bool *accumulate = context;
    lsi_kernels_get()->gelu_backward(p[0], p[1], p[2], n, *accumulate);
}

static ls_status gelu_backward(ls_tape *tape, ls_node *node)
{
    const ls_tensor *a = ls_node_saved(node, A);
    const ls_tensor *dy = ls_node_grad_output(tape, node, 0);
    bool accumulate = false;
    const ls_tensor *da = ls_node_grad_input(tape, node, A, &accumulate);
    if (dy == NULL || da == NULL)
        return ls_tape_status(tape);
    lsi_mixed arrays[] = {lsi_op_out(da), lsi_op_in(dy), lsi_op_in(a)};
    if (accumulate)
        arrays[0].use = LSI_MIXED_INOUT;
    lsi_span_mixed(arrays, 3, (size_t)a->count, gelu_backward_block,
                   &accumulate);
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
    const lsi_mixed arrays[] = {lsi_op_out(y), lsi_op_in(saved[A])};
    lsi_span_mixed(arrays, 2, (size_t)y->count, gelu_block, NULL);
    return ls_tape_record(tape, &lsi_op_gelu, NULL, &a, 1, &y, 1, saved, 1);
}
