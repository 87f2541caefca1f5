/*
 * Arithmetic of two f32 tensors, of equal shapes or of shapes that broadcast
 * (see lockstep/autograd.h).
 *
 *     add    y = a + b       da = dy         db = dy
 *     sub    y = a - b       da = dy         db = -dy
 *     mul    y = a b         da = dy b       db = dy a
 *     div    y = a / b       da = dy / b     db = -dy y / b
 *
 * The gradient of a repeated input is the sum over its repetitions. Equal
 * shapes keep a layout of images. In mixed precision add reads one half operand
 * of equal shape as it is, such as a product that joins the residual stream.
 */
#include "array/compute/array.h"
#include "array/compute/axes.h"
#include "array/compute/broadcast.h"
#include "base/error.h"
#include "model/autograd/ops/repeat.h"

/*
 * Two operands with contiguous memory; operands of equal shapes have one
 * layout.
 */
typedef struct operands {
    ls_tensor *a, *b;
} operands;

static bool prepare(ls_tape *tape, ls_tensor *const *in, operands *out)
{
    const bool equal = lsi_shape_equal(in[0], in[1]);
    out->a = lsi_op_dense(tape, in[0]);
    out->b = lsi_op_dense(tape, in[1]);
    if (out->a == NULL || out->b == NULL)
        return false;
    if (equal && lsi_tensor_layout(out->a) == lsi_tensor_layout(out->b))
        return true;
    out->a = lsi_op_plain(tape, out->a);
    out->b = lsi_op_plain(tape, out->b);
    return out->a != NULL && out->b != NULL;
}

/* ---- broadcasting -------------------------------------------------------- */

static bool result_shape(ls_tape *tape, const ls_function *function,
                         const ls_tensor *a, const ls_tensor *b,
                         lsi_op_shape *out)
{
    return lsi_op_broadcast(tape, function, a, out) &&
           lsi_op_broadcast(tape, function, b, out);
}

/* y = a op b, where y has the shape that both broadcast to; all plain. */
static void compute(lsi_binary_op op, const ls_tensor *y, float *to,
                    const ls_tensor *a, const ls_tensor *b)
{
    lsi_repeated of_a = {.data = lsi_op_floats(a)};
    lsi_repeated of_b = {.data = lsi_op_floats(b)};
    lsi_op_repeated_strides(a, y->ndim, of_a.strides);
    lsi_op_repeated_strides(b, y->ndim, of_b.strides);
    lsi_broadcast_binary(op, to, y->ndim, y->shape, of_a, of_b);
}

/* ---- forward ------------------------------------------------------------- */

static const struct {
    const ls_function *function;
    void (*equal)(float *y, const float *a, const float *b, size_t n);
} ops[] = {
    [LSI_BINARY_ADD] = {&lsi_op_add, lsi_array_add},
    [LSI_BINARY_SUB] = {&lsi_op_sub, lsi_array_sub},
    [LSI_BINARY_MUL] = {&lsi_op_mul, lsi_array_mul},
    [LSI_BINARY_DIV] = {&lsi_op_div, lsi_array_div},
};

static ls_tensor *binary(ls_tape *tape, lsi_binary_op op, ls_tensor *a,
                         ls_tensor *b)
{
    const ls_function *const function = ops[op].function;
    ls_tensor *inputs[] = {a, b};
    operands in = {0};
    lsi_op_shape to = {0};
    if (!lsi_op_begin_f32(tape, function, inputs, 2) ||
        !result_shape(tape, function, a, b, &to) || !prepare(tape, inputs, &in))
        return NULL;
    const bool equal = lsi_shape_equal(in.a, in.b);
    ls_tensor *y = equal ? lsi_op_like(tape, in.a)
                         : ls_tape_output(tape, LS_F32, to.ndim, to.extent);
    if (y == NULL)
        return NULL;
    if (equal)
        ops[op].equal(lsi_op_floats(y), lsi_op_floats(in.a),
                      lsi_op_floats(in.b), (size_t)y->count);
    else
        compute(op, y, lsi_op_floats(y), in.a, in.b);
    const bool save = op == LSI_BINARY_MUL || op == LSI_BINARY_DIV;
    ls_tensor *const saved[] = {op == LSI_BINARY_DIV ? y : in.a, in.b};
    return ls_tape_record(tape, function, NULL, inputs, 2, &y, 1, saved,
                          save ? 2 : 0);
}

/* ---- backward ------------------------------------------------------------ */

static bool was_repeated(const ls_node *node, int index)
{
    return !lsi_shape_equal(ls_node_output(node, 0),
                            ls_node_input(node, index));
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
    if (was_repeated(node, index) ||
        lsi_op_repeats_samples(tape, node, index)) {
        const ls_tensor *dy = ls_node_grad_output(tape, node, 0);
        LS_TRY(ls_tape_status(tape));
        return lsi_op_sum_repeated(
            tape, node, index,
            &(lsi_repeated_sum){.g = lsi_op_floats(dy), .factor = factor});
    }
    return lsi_op_pass_scaled(tape, node, index, factor);
}

/* d input = dy, without a copy where possible. */
static ls_status pass_gradient(ls_tape *tape, ls_node *node, int index)
{
    if (!was_repeated(node, index) && lsi_node_hand_over(tape, node, index))
        return LS_OK;
    return pass_scaled(tape, node, index, 1.0);
}

/* ---- add, sub ------------------------------------------------------------ */

/* b before a, because a may reuse the memory of dy. */
static ls_status add_backward(ls_tape *tape, ls_node *node)
{
    for (int i = 0; i < 2; i++) {
        if (ls_node_input(node, i)->dtype == LS_F32)
            continue;
        LS_TRY(pass_rounded(tape, node, i));
        return pass_gradient(tape, node, 1 - i);
    }
    /* A repeated input first: `pass_gradient` may hand dy over to the other
     * one. */
    const int first = was_repeated(node, 0) ? 0 : 1;
    LS_TRY(pass_scaled(tape, node, first, 1.0));
    return pass_gradient(tape, node, 1 - first);
}

const ls_function lsi_op_add = {"add", add_backward, 0};

/* f32 and half, in either order. */
static ls_tensor *add_mixed(ls_tape *tape, ls_tensor *const *in)
{
    if (!lsi_op_begin_mixed(tape, &lsi_op_add, in, 2))
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
        (a->dtype == LS_F32) != (b->dtype == LS_F32) && lsi_shape_equal(a, b))
        return add_mixed(tape, (ls_tensor *const[]){a, b});
    return binary(tape, LSI_BINARY_ADD, a, b);
}

static ls_status sub_backward(ls_tape *tape, ls_node *node)
{
    LS_TRY(pass_scaled(tape, node, 1, -1.0));
    return pass_gradient(tape, node, 0);
}

const ls_function lsi_op_sub = {"sub", sub_backward, 0};

ls_tensor *ls_sub(ls_tape *tape, ls_tensor *a, ls_tensor *b)
{
    return binary(tape, LSI_BINARY_SUB, a, b);
}

/* ---- mul, div ------------------------------------------------------------ */

enum { A, B, Y = A }; /* div saves y in place of a */

/* d input = dy op other, summed over the input's repetitions. */
static ls_status pass_product(ls_tape *tape, ls_node *node, int index,
                              lsi_binary_op op, const ls_tensor *other)
{
    const ls_tensor *y = ls_node_output(node, 0);
    const ls_tensor *dy = ls_node_grad_output(tape, node, 0);
    LS_TRY(ls_tape_status(tape));
    if (was_repeated(node, index)) {
        if (!lsi_tape_needs(tape, ls_node_input(node, index)))
            return LS_OK;
        if (op == LSI_BINARY_MUL && lsi_shape_equal(other, y))
            return lsi_op_sum_repeated(tape, node, index,
                                       &(lsi_repeated_sum){lsi_op_floats(dy),
                                                           lsi_op_floats(other),
                                                           1.0});
        float *g = ls_tape_scratch(tape, (size_t)y->count * sizeof *g);
        LS_TRY(ls_tape_status(tape));
        compute(op, y, g, dy, other);
        return lsi_op_sum_repeated(tape, node, index,
                                   &(lsi_repeated_sum){.g = g, .factor = 1.0});
    }
    lsi_target dx = {0};
    LS_TRY(lsi_target_open(tape, node, index, LSI_LAYOUT_PLAIN, &dx));
    if (dx.grad == NULL)
        return LS_OK;
    compute(op, y, lsi_op_floats(dx.out), dy, other);
    return lsi_target_close(&dx);
}

/* As pass_product for equal shapes, in the layout of dy. */
static ls_status pass_equal_product(ls_tape *tape, ls_node *node, int index)
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
    const bool equal = !was_repeated(node, A) && !was_repeated(node, B);
    for (int i = 0; i < 2; i++) {
        if (equal)
            LS_TRY(pass_equal_product(tape, node, i));
        else
            LS_TRY(pass_product(tape, node, i, LSI_BINARY_MUL,
                                ls_node_saved(node, 1 - i)));
    }
    return LS_OK;
}

const ls_function lsi_op_mul = {"mul", mul_backward, 0};

ls_tensor *ls_mul(ls_tape *tape, ls_tensor *a, ls_tensor *b)
{
    return binary(tape, LSI_BINARY_MUL, a, b);
}

/* db = -(dy / b) y, via a temporary of y's shape. */
static ls_status div_backward(ls_tape *tape, ls_node *node)
{
    ls_tensor *y = NULL, *b = NULL;
    const ls_tensor *dy = ls_node_grad_output(tape, node, 0);
    LS_TRY(ls_tape_status(tape));
    LS_TRY(
        lsi_tape_in_layout(tape, ls_node_saved(node, Y), LSI_LAYOUT_PLAIN, &y));
    LS_TRY(
        lsi_tape_in_layout(tape, ls_node_saved(node, B), LSI_LAYOUT_PLAIN, &b));
    if (lsi_tape_needs(tape, ls_node_input(node, B))) {
        const size_t n = (size_t)y->count;
        float *g = ls_tape_scratch(tape, n * sizeof *g);
        LS_TRY(ls_tape_status(tape));
        compute(LSI_BINARY_DIV, y, g, dy, b);
        lsi_array_mul(g, g, lsi_op_floats(y), n);
        LS_TRY(lsi_op_sum_repeated(
            tape, node, B, &(lsi_repeated_sum){.g = g, .factor = -1.0}));
    }
    return pass_product(tape, node, A, LSI_BINARY_DIV, b);
}

const ls_function lsi_op_div = {"div", div_backward, 0};

ls_tensor *ls_div(ls_tape *tape, ls_tensor *a, ls_tensor *b)
{
    return binary(tape, LSI_BINARY_DIV, a, b);
}
