/*
 * y (R, out) = x (R, in) weight^T + bias, weight (out, in), bias (out) or none.
 * R stands for all leading dimensions together. x, weight and y have one type
 * when multiplied; the bias is f32. Where nothing is recorded, an f32 x may
 * have a half weight, which is widened. With few rows of x, reading the weights
 * determines the time.
 *
 *     dx (R, in)       = dy weight
 *     dweight (out, in) = dy^T x
 *     dbias (out)      = sum of dy over R
 *
 * Each slice of the batch, which is the first dimension, is computed
 * separately, so that its bits do not depend on the batch size.
 */
#include "array/compute/array.h"
#include "array/compute/row_products.h"
#include "base/bits.h"
#include "base/error.h"
#include "model/autograd/layer_span.h"
#include "model/autograd/ops/ops.h"

enum { X, WEIGHT, BIAS };

typedef struct linear_state {
    int64_t rows, in, out;
    size_t each; /* rows of x that are one of its first dimension */
    lsi_slicing slicing;
} linear_state;

/* The rows of a slice. */
static lsi_range slice_of(const linear_state *s, int slice)
{
    const lsi_range range = lsi_slicing_rows(&s->slicing, slice);
    return (lsi_range){range.begin * s->each, range.end * s->each};
}

static void *row_at(const ls_tensor *tensor, size_t row, int64_t cols)
{
    return (char *)lsi_tensor_raw(tensor) +
           row * (size_t)cols * ls_dtype_size(tensor->dtype);
}

static int64_t at_least_one(int64_t n)
{
    return n > 0 ? n : 1;
}

/* c (R, n) = a (R, k) weight, slice by slice. */
static ls_status multiply(const linear_state *s, lsi_gemm_shape shape,
                          const ls_tensor *c, const ls_tensor *a,
                          const ls_tensor *weight, const float *bias)
{
    shape.lda = at_least_one(shape.k);
    shape.ldb = at_least_one(s->in);
    shape.ldc = at_least_one(shape.n);
    shape.ab_dtype = a->dtype;
    shape.c_dtype = c->dtype;
    /* Portable bits of a row do not depend on the number of rows. */
    const bool whole = lsi_bits_are_portable() && a->dtype == LS_F32 &&
                       weight->dtype == LS_F32;
    for (int j = 0; j < (whole ? 1 : s->slicing.slices); j++) {
        const lsi_range rows =
            whole ? (lsi_range){0, (size_t)s->rows} : slice_of(s, j);
        shape.m = (int64_t)lsi_range_size(rows);
        LS_TRY(lsi_gemm_run(&shape, row_at(c, rows.begin, shape.n),
                            row_at(a, rows.begin, shape.k),
                            lsi_tensor_raw(weight), bias));
    }
    return LS_OK;
}

static ls_status multiply_forward(const linear_state *s, const ls_tensor *y,
                                  ls_tensor *const *in, const ls_tensor *bias)
{
    const lsi_gemm_shape shape = {
        .n = s->out, .k = s->in, .b_transposed = true};
    return multiply(s, shape, y, in[X], in[WEIGHT],
                    bias != NULL ? lsi_op_floats(bias) : NULL);
}

/* Whether to multiply by lsi_row_products_run. */
static bool reads_weights(const ls_tape *tape, const ls_tensor *x,
                          const ls_tensor *weight, int64_t rows)
{
    return !tape->training && !lsi_tape_knows_samples(tape) &&
           x->dtype == LS_F32 &&
           (weight->dtype != LS_F32 || rows <= LSI_FEW_ROWS);
}

static ls_status read_weights(const linear_state *s, const ls_tensor *y,
                              ls_tensor *const *in, const ls_tensor *bias)
{
    const lsi_row_products p = {.rows = (size_t)s->rows,
                                .in = (size_t)s->in,
                                .out = (size_t)s->out,
                                .w_dtype = in[WEIGHT]->dtype};
    return lsi_row_products_run(&p, lsi_op_floats(y), lsi_op_floats(in[X]),
                                lsi_tensor_raw(in[WEIGHT]),
                                bias != NULL ? lsi_op_floats(bias) : NULL);
}

static ls_status forward(const ls_tape *tape, const linear_state *s,
                         const ls_tensor *y, ls_tensor *const *in,
                         const ls_tensor *weight, const ls_tensor *bias)
{
    LSI_LAYER(weight, "linear", LSI_PASS_FORWARD);
    return reads_weights(tape, in[X], in[WEIGHT], s->rows)
               ? read_weights(s, y, in, bias)
               : multiply_forward(s, y, in, bias);
}

static ls_status backward_x(ls_tape *tape, ls_node *node, const ls_tensor *dy)
{
    const linear_state *s = ls_node_state(node);
    lsi_gemm_shape shape = {.n = s->in, .k = s->out};
    const ls_tensor *dx = ls_node_grad_input(tape, node, X, &shape.accumulate);
    if (dx == NULL)
        return ls_tape_status(tape);
    LSI_LAYER(ls_node_input(node, WEIGHT), "linear", LSI_PASS_DATA);
    return multiply(s, shape, dx, dy, ls_node_saved(node, WEIGHT), NULL);
}

static ls_status backward_weight(ls_tape *tape, ls_node *node,
                                 const ls_tensor *dy, int slice)
{
    const linear_state *s = ls_node_state(node);
    const ls_tensor *x = ls_node_saved(node, X);
    const lsi_range rows = slice_of(s, slice);
    lsi_slice_grad dw;
    LS_TRY(lsi_node_grad_slice(tape, node, WEIGHT, slice, &dw));
    if (dw.data == NULL)
        return LS_OK;
    const lsi_gemm_shape shape = {.m = s->out,
                                  .n = s->in,
                                  .k = (int64_t)lsi_range_size(rows),
                                  .lda = at_least_one(s->out),
                                  .ldb = at_least_one(s->in),
                                  .ldc = at_least_one(s->in),
                                  .a_transposed = true,
                                  .accumulate = dw.accumulate,
                                  .ab_dtype = dy->dtype,
                                  .c_dtype = dw.dtype};
    LSI_LAYER(ls_node_input(node, WEIGHT), "linear", LSI_PASS_WEIGHT);
    return lsi_gemm_run(&shape, dw.data, row_at(dy, rows.begin, s->out),
                        row_at(x, rows.begin, s->in), NULL);
}

static ls_status backward_bias(ls_tape *tape, ls_node *node,
                               const ls_tensor *dy)
{
    const linear_state *s = ls_node_state(node);
    if (!lsi_tape_needs(tape, ls_node_input(node, BIAS)))
        return LS_OK;
    const float *rows = lsi_tensor_raw(dy);
    if (dy->dtype != LS_F32) {
        float *converted =
            ls_tape_scratch(tape, (size_t)dy->count * sizeof(float));
        if (converted == NULL)
            return ls_tape_status(tape);
        lsi_array_convert(converted, LS_F32, rows, dy->dtype,
                          (size_t)dy->count);
        rows = converted;
    }
    for (int j = 0; j < s->slicing.slices; j++) {
        const lsi_range slice = slice_of(s, j);
        lsi_slice_grad db;
        LS_TRY(lsi_node_grad_slice(tape, node, BIAS, j, &db));
        lsi_array_column_sum(db.data, rows + slice.begin * (size_t)s->out,
                             lsi_range_size(slice), (size_t)s->out,
                             db.accumulate);
    }
    return LS_OK;
}

/* The input's gradient is last: by then the other gradients are in flight. */
static ls_status linear_backward(ls_tape *tape, ls_node *node)
{
    const ls_tensor *dy = ls_node_grad_output(tape, node, 0);
    if (dy == NULL)
        return ls_tape_status(tape);
    LS_TRY(backward_bias(tape, node, dy));
    const linear_state *s = ls_node_state(node);
    for (int j = 0; j < s->slicing.slices; j++)
        LS_TRY(backward_weight(tape, node, dy, j));
    return backward_x(tape, node, dy);
}

const ls_function lsi_op_linear = {"linear", linear_backward,
                                   sizeof(linear_state)};

static bool check(ls_tape *tape, ls_tensor *const *in)
{
    const ls_tensor *x = in[X], *weight = in[WEIGHT], *bias = in[BIAS];
    if (!lsi_dtype_is_real(x->dtype))
        return ls_tape_fail(tape, LS_ERR_DTYPE,
                            "linear: x is %s; it must be f32, bf16 or f16",
                            ls_dtype_name(x->dtype)) != NULL;
    const bool widens = !tape->training && x->dtype == LS_F32 &&
                        lsi_dtype_is_real(weight->dtype);
    if ((!widens &&
         !lsi_op_check_dtype(tape, &lsi_op_linear, weight, x->dtype)) ||
        (bias != NULL &&
         !lsi_op_check_dtype(tape, &lsi_op_linear, bias, LS_F32)))
        return false;
    if (x->ndim < 1 || weight->ndim != 2 ||
        x->shape[x->ndim - 1] != weight->shape[1])
        return ls_tape_fail(tape, LS_ERR_SHAPE,
                            "linear: x has shape %s and weight has shape %s; "
                            "they must be (..., in) and (out, in)",
                            lsi_shape_of(x).text,
                            lsi_shape_of(weight).text) != NULL;
    if (bias != NULL && (bias->ndim != 1 || bias->shape[0] != weight->shape[0]))
        return ls_tape_fail(tape, LS_ERR_SHAPE,
                            "linear: bias has shape %s; weight of shape %s "
                            "(out, in) needs a bias of shape (out)",
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
    if (!lsi_op_begin_product(tape, &lsi_op_linear, inputs,
                              bias != NULL ? 3 : 2))
        return NULL;
    ls_tensor *const operands[] = {lsi_op_operand(tape, x),
                                   lsi_op_operand(tape, weight), bias};
    if (ls_tape_status(tape) != LS_OK || !check(tape, operands))
        return NULL;
    const int64_t batch = x->ndim > 1 ? x->shape[0] : 1;
    linear_state state = {
        .rows = leading(x), .in = weight->shape[1], .out = weight->shape[0]};
    state.each = batch > 0 ? (size_t)(state.rows / batch) : 0;
    if (!lsi_slicing_of(tape, &lsi_op_linear,
                        weight->param != NULL || bias == NULL ? weight : bias,
                        batch, &state.slicing))
        return NULL;
    ls_tensor *const saved[] = {lsi_op_plain(tape, operands[X]),
                                lsi_op_plain(tape, operands[WEIGHT])};
    const ls_tensor *b = bias != NULL ? lsi_op_plain(tape, bias) : NULL;
    ls_tensor *y = new_output(tape, operands[X], state.out);
    if (y == NULL)
        return NULL;
    const ls_status status = forward(tape, &state, y, saved, weight, b);
    if (status != LS_OK)
        return lsi_tape_stop(tape, status);
    return ls_tape_record(tape, &lsi_op_linear, &state, inputs, 3, &y, 1, saved,
                          2);
}
