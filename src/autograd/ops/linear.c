/*
 * y (R, out) = x (R, in) weight^T + bias, weight (out, in), bias (out) or
 * none. R stands for all leading dimensions together. x, weight and y are all
 * f32 or all bf16; the bias is f32.
 *
 *     dx (R, in)       = dy weight
 *     dweight (out, in) = dy^T x
 *     dbias (out)      = sum of dy over R
 */
#include "autograd/ops/ops.h"
#include "autograd/span.h"
#include "base/error.h"
#include "kernels/kernels.h"

enum { X, WEIGHT, BIAS };

typedef struct linear_state {
    int64_t rows, in, out;
} linear_state;

static int64_t at_least_one(int64_t n)
{
    return n > 0 ? n : 1;
}

static ls_status forward(const linear_state *s, const ls_tensor *y,
                         const ls_tensor *x, const ls_tensor *weight,
                         const ls_tensor *bias)
{
    const lsi_gemm shape = {.m = s->rows,
                            .n = s->out,
                            .k = s->in,
                            .lda = at_least_one(s->in),
                            .ldb = at_least_one(s->in),
                            .ldc = at_least_one(s->out),
                            .b_transposed = true,
                            .ab_dtype = x->dtype,
                            .c_dtype = y->dtype};
    return lsi_gemm_run(&shape, lsi_tensor_raw(y), lsi_tensor_raw(x),
                        lsi_tensor_raw(weight),
                        bias != NULL ? lsi_op_floats(bias) : NULL);
}

static ls_status backward_x(ls_tape *tape, ls_node *node, const ls_tensor *dy)
{
    const linear_state *s = ls_node_state(node);
    const ls_tensor *weight = ls_node_saved(node, WEIGHT);
    bool accumulate = false;
    const ls_tensor *dx = ls_node_grad_input(tape, node, X, &accumulate);
    if (dx == NULL)
        return ls_tape_status(tape);
    const lsi_gemm shape = {.m = s->rows,
                            .n = s->in,
                            .k = s->out,
                            .lda = at_least_one(s->out),
                            .ldb = at_least_one(s->in),
                            .ldc = at_least_one(s->in),
                            .accumulate = accumulate,
                            .ab_dtype = dy->dtype,
                            .c_dtype = dx->dtype};
    return lsi_gemm_run(&shape, lsi_tensor_raw(dx), lsi_tensor_raw(dy),
                        lsi_tensor_raw(weight), NULL);
}

static ls_status backward_weight(ls_tape *tape, ls_node *node,
                                 const ls_tensor *dy)
{
    const linear_state *s = ls_node_state(node);
    const ls_tensor *x = ls_node_saved(node, X);
    bool accumulate = false;
    const ls_tensor *dw = ls_node_grad_input(tape, node, WEIGHT, &accumulate);
    if (dw == NULL)
        return ls_tape_status(tape);
    const lsi_gemm shape = {.m = s->out,
                            .n = s->in,
                            .k = s->rows,
                            .lda = at_least_one(s->out),
                            .ldb = at_least_one(s->in),
                            .ldc = at_least_one(s->in),
                            .a_transposed = true,
                            .accumulate = accumulate,
                            .ab_dtype = dy->dtype,
                            .c_dtype = dw->dtype};
    return lsi_gemm_run(&shape, lsi_tensor_raw(dw), lsi_tensor_raw(dy),
                        lsi_tensor_raw(x), NULL);
}

static ls_status backward_bias(ls_tape *tape, ls_node *node,
                               const ls_tensor *dy)
{
    const linear_state *s = ls_node_state(node);
    bool accumulate = false;
    const ls_tensor *db = ls_node_grad_input(tape, node, BIAS, &accumulate);
    if (db == NULL)
        return ls_tape_status(tape);
    const float *rows = lsi_tensor_raw(dy);
    if (dy->dtype != LS_F32) {
        float *converted =
            ls_tape_scratch(tape, (size_t)dy->count * sizeof(float));
        if (converted == NULL)
            return ls_tape_status(tape);
        lsi_span_convert(converted, LS_F32, rows, dy->dtype, (size_t)dy->count);
        rows = converted;
    }
    lsi_kernels_get()->column_sum(lsi_op_floats(db), rows, (size_t)s->rows,
                                  (size_t)s->out, accumulate);
    return LS_OK;
}

/* The input's gradient last: the others are then already on their way. */
static ls_status linear_backward(ls_tape *tape, ls_node *node)
{
    const ls_tensor *dy = ls_node_grad_output(tape, node, 0);
    if (dy == NULL)
        return ls_tape_status(tape);
    LS_TRY(backward_bias(tape, node, dy));
    LS_TRY(backward_weight(tape, node, dy));
    return backward_x(tape, node, dy);
}

const ls_function lsi_op_linear = {"linear", linear_backward,
                                   sizeof(linear_state)};

static bool check(ls_tape *tape, ls_tensor *const *in)
{
    const ls_tensor *x = in[X], *weight = in[WEIGHT], *bias = in[BIAS];
    if (x->dtype != LS_F32 && x->dtype != LS_BF16)
        return ls_tape_fail(tape, LS_ERR_DTYPE,
                            "linear: x is %s; it must be f32 or bf16",
                            ls_dtype_name(x->dtype)) != NULL;
    if (!lsi_op_check_dtype(tape, &lsi_op_linear, weight, x->dtype) ||
        (bias != NULL &&
         !lsi_op_check_dtype(tape, &lsi_op_linear, bias, LS_F32)))
        return false;
    if (x->ndim < 1 || weight->ndim != 2 ||
        x->shape[x->ndim - 1] != weight->shape[1])
        return ls_tape_fail(tape, LS_ERR_SHAPE,
                            "linear: x %s and weight %s should be (..., in) "
                            "and (out, in)",
                            lsi_shape_of(x).text,
                            lsi_shape_of(weight).text) != NULL;
    if (bias != NULL && (bias->ndim != 1 || bias->shape[0] != weight->shape[0]))
        return ls_tape_fail(tape, LS_ERR_SHAPE,
                            "linear: bias %s does not fit weight %s (out, in)",
                            lsi_shape_of(bias).text,
                            lsi_shape_of(weight).text) != NULL;
    return true;
}

static ls_tensor *new_output(ls_tape *tape, const ls_tensor *x, int64_t out)
{
    int64_t shape[LS_MAX_DIMS];
    for (int d = 0; d < x->ndim - 1; d++)
        shape[d] = x->shape[d];
    shape[x->ndim - 1] = out;
    return ls_tape_output(tape, x->dtype, x->ndim, shape);
}

static int64_t leading(const ls_tensor *x)
{
    int64_t rows = 1;
    for (int d = 0; d < x->ndim - 1; d++)
        rows *= x->shape[d];
    return rows;
}

ls_tensor *ls_linear(ls_tape *tape, ls_tensor *x, ls_tensor *weight,
                     ls_tensor *bias)
{
    ls_tensor *const inputs[] = {x, weight, bias};
    if (!lsi_op_begin(tape, &lsi_op_linear, inputs, bias != NULL ? 3 : 2) ||
        !check(tape, inputs))
        return NULL;
    const linear_state state = {leading(x), weight->shape[1], weight->shape[0]};
    ls_tensor *const saved[] = {lsi_op_plain(tape, x),
                                lsi_op_plain(tape, weight)};
    const ls_tensor *b = bias != NULL ? lsi_op_plain(tape, bias) : NULL;
    ls_tensor *y = new_output(tape, x, state.out);
    if (y == NULL)
        return NULL;
    const ls_status status = forward(&state, y, saved[X], saved[WEIGHT], b);
    if (status != LS_OK)
        return lsi_tape_stop(tape, status);
    return ls_tape_record(tape, &lsi_op_linear, &state, inputs, 3, &y, 1, saved,
                          2);
}
