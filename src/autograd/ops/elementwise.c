/*
 * Element-wise operations on f32 tensors of equal shapes, in any layout.
 *
 *     add    y = a + b       da = dy         db = dy
 *     sub    y = a - b       da = dy         db = -dy
 *     mul    y = a b         da = dy b       db = dy a
 *     scale  y = a factor    da = dy factor
 *     relu   y = max(a, 0)   da = dy where y > 0, else 0
 *
 * In mixed precision relu keeps the type of its input, and add reads one half
 * operand as it is: what a product gives to the residual stream.
 */
#include "autograd/ops/ops.h"
#include "base/error.h"
#include "compute/array.h"

/* Two operands with contiguous memory in one layout. */
typedef struct operands {
    ls_tensor *a, *b;
} operands;

static bool prepare(ls_tape *tape, const ls_function *function, ls_tensor **in,
                    operands *out)
{
    if (!lsi_op_begin_f32(tape, function, in, 2) ||
        !lsi_op_check_equal(tape, function, in[0], in[1]))
        return false;
    out->a = lsi_op_dense(tape, in[0]);
    out->b = lsi_op_dense(tape, in[1]);
    if (out->a == NULL || out->b == NULL)
        return false;
    if (lsi_tensor_layout(out->a) == lsi_tensor_layout(out->b))
        return true;
    out->a = lsi_op_plain(tape, out->a);
    out->b = lsi_op_plain(tape, out->b);
    return out->a != NULL && out->b != NULL;
}

typedef void (*binary_fn)(float *y, const float *a, const float *b, size_t n);

static ls_tensor *binary(ls_tape *tape, const ls_function *function,
                         ls_tensor *a, ls_tensor *b, binary_fn compute,
                         bool save)
{
    ls_tensor *inputs[] = {a, b};
    operands in = {0};
    if (!prepare(tape, function, inputs, &in))
        return NULL;
    ls_tensor *y = lsi_op_like(tape, in.a);
    if (y == NULL)
        return NULL;
    compute(lsi_op_floats(y), lsi_op_floats(in.a), lsi_op_floats(in.b),
            (size_t)y->count);
    return ls_tape_record(tape, function, NULL, inputs, 2, &y, 1,
                          (ls_tensor *const[]){in.a, in.b}, save ? 2 : 0);
}

/* d input = dy, rounded to the input's type */
static ls_status pass_rounded(ls_tape *tape, ls_node *node, int index)
{
    const ls_tensor *dy = ls_node_grad_output(tape, node, 0);
    lsi_target dx = {0};
    LS_TRY(ls_tape_status(tape));
    LS_TRY(lsi_target_open(tape, node, index, LSI_LAYOUT_PLAIN, &dx));
    if (dx.grad == NULL)
        return LS_OK;
    lsi_array_convert(lsi_tensor_raw(dx.out), dx.out->dtype, lsi_tensor_raw(dy),
                      dy->dtype, (size_t)dy->count);
    return lsi_target_close(&dx);
}

/* d input = dy * factor */
static ls_status pass_scaled(ls_tape *tape, ls_node *node, int index,
                             double factor)
{
    const ls_tensor *dy = lsi_node_grad_output_raw(tape, node, 0);
    const float *from = lsi_op_floats(dy);
    lsi_target dx = {0};
    LS_TRY(lsi_target_open(tape, node, index, lsi_tensor_layout(dy), &dx));
    if (dx.grad == NULL)
        return LS_OK;
    lsi_array_scale(lsi_op_floats(dx.out), from, (float)factor,
                    (size_t)dx.out->count);
    return lsi_target_close(&dx);
}

/* d input = dy, without a copy where that can be. */
static ls_status pass(ls_tape *tape, ls_node *node, int index)
{
    if (lsi_node_hand_over(tape, node, index))
        return LS_OK;
    return pass_scaled(tape, node, index, 1.0);
}

/* ---- add, sub ------------------------------------------------------------ */

/* b before a: a may take over dy, after which it is gone. */
static ls_status add_backward(ls_tape *tape, ls_node *node)
{
    for (int i = 0; i < 2; i++) {
        if (ls_node_input(node, i)->dtype == LS_F32)
            continue;
        LS_TRY(pass_rounded(tape, node, i));
        return pass(tape, node, 1 - i);
    }
    LS_TRY(pass_scaled(tape, node, 1, 1.0));
    return pass(tape, node, 0);
}

const ls_function lsi_op_add = {"add", add_backward, 0};

/* f32 and half, in either order. */
static ls_tensor *add_mixed(ls_tape *tape, ls_tensor *const *in)
{
    if (!lsi_op_begin_mixed(tape, &lsi_op_add, in, 2) ||
        !lsi_op_check_equal(tape, &lsi_op_add, in[0], in[1]))
        return NULL;
    const ls_tensor *a = lsi_op_plain(tape, in[0]);
    const ls_tensor *b = lsi_op_plain(tape, in[1]);
    ls_tensor *y = ls_tape_output(tape, LS_F32, in[0]->ndim, in[0]->shape);
    if (y == NULL)
        return NULL;
    lsi_mixed_add(lsi_op_mixed(y), lsi_op_mixed(a), lsi_op_mixed(b),
                  (size_t)y->count);
    return ls_tape_record(tape, &lsi_op_add, NULL, in, 2, &y, 1, NULL, 0);
}

ls_tensor *ls_add(ls_tape *tape, ls_tensor *a, ls_tensor *b)
{
    if (a != NULL && b != NULL && tape != NULL && lsi_tape_is_mixed(tape) &&
        (a->dtype == LS_F32) != (b->dtype == LS_F32))
        return add_mixed(tape, (ls_tensor *const[]){a, b});
    return binary(tape, &lsi_op_add, a, b, lsi_array_add, false);
}

static ls_status sub_backward(ls_tape *tape, ls_node *node)
{
    LS_TRY(pass_scaled(tape, node, 1, -1.0));
    return pass(tape, node, 0);
}

const ls_function lsi_op_sub = {"sub", sub_backward, 0};

ls_tensor *ls_sub(ls_tape *tape, ls_tensor *a, ls_tensor *b)
{
    return binary(tape, &lsi_op_sub, a, b, lsi_array_sub, false);
}

/* ---- mul ----------------------------------------------------------------- */

static ls_status mul_pass(ls_tape *tape, ls_node *node, int index)
{
    const ls_tensor *dy = lsi_node_grad_output_raw(tape, node, 0);
    const lsi_layout layout = lsi_tensor_layout(dy);
    ls_tensor *other = NULL;
    lsi_target dx = {0};
    LS_TRY(lsi_tape_in_layout(tape, ls_node_saved(node, 1 - index), layout,
                              &other));
    LS_TRY(lsi_target_open(tape, node, index, layout, &dx));
    if (dx.grad == NULL)
        return LS_OK;
    lsi_array_mul(lsi_op_floats(dx.out), lsi_op_floats(dy),
                  lsi_op_floats(other), (size_t)dy->count);
    return lsi_target_close(&dx);
}

static ls_status mul_backward(ls_tape *tape, ls_node *node)
{
    LS_TRY(mul_pass(tape, node, 0));
    return mul_pass(tape, node, 1);
}

const ls_function lsi_op_mul = {"mul", mul_backward, 0};

ls_tensor *ls_mul(ls_tape *tape, ls_tensor *a, ls_tensor *b)
{
    return binary(tape, &lsi_op_mul, a, b, lsi_array_mul, true);
}

/* ---- scale --------------------------------------------------------------- */

static ls_status scale_backward(ls_tape *tape, ls_node *node)
{
    const double *factor = ls_node_state(node);
    return pass_scaled(tape, node, 0, *factor);
}

const ls_function lsi_op_scale = {"scale", scale_backward, sizeof(double)};

ls_tensor *ls_scale(ls_tape *tape, ls_tensor *a, double factor)
{
    if (!lsi_op_begin_f32(tape, &lsi_op_scale, &a, 1))
        return NULL;
    const ls_tensor *x = lsi_op_dense(tape, a);
    ls_tensor *y = x != NULL ? lsi_op_like(tape, x) : NULL;
    if (y == NULL)
        return NULL;
    lsi_array_scale(lsi_op_floats(y), lsi_op_floats(x), (float)factor,
                    (size_t)y->count);
    return ls_tape_record(tape, &lsi_op_scale, &factor, &a, 1, &y, 1, NULL, 0);
}

/* ---- relu ---------------------------------------------------------------- */

/* The gradient may be computed in place, so it is read before it moves. */
static ls_status relu_backward(ls_tape *tape, ls_node *node)
{
    const ls_tensor *dy = lsi_node_grad_output_raw(tape, node, 0);
    const lsi_layout layout = lsi_tensor_layout(dy);
    const lsi_mixed from = lsi_op_mixed(dy);
    ls_tensor *y = NULL;
    lsi_target dx = {0};
    LS_TRY(lsi_tape_in_layout(tape, ls_node_output(node, 0), layout, &y));
    LS_TRY(lsi_target_open_over(tape, node, 0, layout, &dx));
    if (dx.grad == NULL)
        return LS_OK;
    lsi_mixed_relu_backward(lsi_op_mixed(dx.out), from, lsi_op_mixed(y),
                            (size_t)y->count);
    return lsi_target_close(&dx);
}

const ls_function lsi_op_relu = {"relu", relu_backward, 0};

ls_tensor *ls_relu(ls_tape *tape, ls_tensor *a)
{
    if (!lsi_op_begin_mixed(tape, &lsi_op_relu, &a, 1))
        return NULL;
    const ls_tensor *x = lsi_op_dense(tape, a);
    ls_tensor *y = x != NULL ? lsi_op_like(tape, x) : NULL;
    if (y == NULL)
        return NULL;
    lsi_mixed_relu(lsi_op_mixed(y), lsi_op_mixed(x), (size_t)y->count);
    return ls_tape_record(tape, &lsi_op_relu, NULL, &a, 1, &y, 1, NULL, 0);
}
