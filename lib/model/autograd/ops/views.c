/*
 * Views that backward sees through. No element moves forward.
 *
 *     reshape    y = a in another shape    da = dy in a's shape
 *     narrow     y = a[.., begin:end, ..]  da = 0, with dy in that range
 *     slice      narrow, each step-th      da as for narrow
 *     transpose  y = a, two dims swapped   da = dy, swapped back
 */
#include "array/compute/array.h"
#include "array/compute/copy.h"
#include "base/error.h"
#include "model/autograd/ops/ops.h"

/* An alias of `tensor` that the tape owns. */
static ls_tensor *alias_of(ls_tape *tape, const ls_tensor *tensor)
{
    ls_tensor *alias = NULL;
    ls_status status = lsi_tensor_alias(tensor, tape->pool, &alias);
    if (status == LS_OK)
        status = lsi_tape_own(tape, alias);
    return status == LS_OK ? alias : lsi_tape_stop(tape, status);
}

static ls_tensor *finish(ls_tape *tape, const ls_function *function,
                         const void *state, ls_tensor *a, ls_tensor *y,
                         ls_status status)
{
    if (status != LS_OK)
        return lsi_tape_stop(tape, status);
    return ls_tape_record(tape, function, state, &a, 1, &y, 1, NULL, 0);
}

/* ---- reshape ------------------------------------------------------------- */

static ls_status reshape_backward(ls_tape *tape, ls_node *node)
{
    if (lsi_node_hand_over(tape, node, 0))
        return LS_OK;
    const ls_tensor *dy = ls_node_grad_output(tape, node, 0);
    LS_TRY(ls_tape_status(tape));
    lsi_target dx = {0};
    LS_TRY(lsi_target_open(tape, node, 0, LSI_LAYOUT_PLAIN, &dx));
    if (dx.grad == NULL)
        return LS_OK;
    lsi_array_copy(lsi_tensor_raw(dx.out), lsi_tensor_raw(dy), dy->dtype,
                   (size_t)dy->count);
    return lsi_target_close(&dx);
}

const ls_function lsi_op_reshape = {"reshape", reshape_backward, 0};

/* A tensor that is not contiguous is copied; a view could not reshape it. */
ls_tensor *ls_reshape(ls_tape *tape, ls_tensor *a, int ndim,
                      const int64_t *shape)
{
    if (!lsi_op_begin(tape, &lsi_op_reshape, &a, 1) ||
        (ndim > 0 && !lsi_tape_has(tape, shape, "reshape", "shape")))
        return NULL;
    const ls_tensor *dense = lsi_op_dense(tape, a);
    ls_tensor *y = dense != NULL ? alias_of(tape, dense) : NULL;
    if (y == NULL)
        return NULL;
    return finish(tape, &lsi_op_reshape, NULL, a, y,
                  lsi_view_reshape(y, ndim, shape));
}

ls_tensor *ls_flatten(ls_tape *tape, ls_tensor *a)
{
    if (!lsi_op_begin(tape, &lsi_op_reshape, &a, 1))
        return NULL;
    if (a->ndim < 1)
        return ls_tape_fail(
            tape, LS_ERR_SHAPE,
            "flatten: the tensor has 0 dimensions; it needs at least 1");
    int64_t rest = 1;
    for (int d = 1; d < a->ndim; d++)
        rest *= a->shape[d];
    return ls_reshape(tape, a, 2, (const int64_t[]){a->shape[0], rest});
}

ls_tensor *lsi_op_identity(ls_tape *tape, ls_tensor *a)
{
    return ls_reshape(tape, a, a->ndim, a->shape);
}

/* ---- narrow -------------------------------------------------------------- */

typedef struct narrow_state {
    int dim;
    int64_t begin;
} narrow_state;

/* The range is `outer` runs of contiguous elements of da. */
static ls_status narrow_backward(ls_tape *tape, ls_node *node)
{
    const narrow_state *state = ls_node_state(node);
    const ls_tensor *dy = ls_node_grad_output(tape, node, 0);
    bool accumulate = false;
    ls_tensor *dx = ls_node_grad_input(tape, node, 0, &accumulate);
    if (dy == NULL || dx == NULL)
        return ls_tape_status(tape);
    const size_t size = ls_dtype_size(dx->dtype);
    size_t outer = 1, inner = 1;
    for (int d = 0; d < state->dim; d++)
        outer *= (size_t)dx->shape[d];
    for (int d = state->dim + 1; d < dx->ndim; d++)
        inner *= (size_t)dx->shape[d];
    const size_t run = (size_t)dy->shape[state->dim] * inner;
    const size_t step = (size_t)dx->shape[state->dim] * inner;
    char *to = lsi_tensor_raw(dx);
    const char *from = lsi_tensor_raw(dy);
    if (!accumulate)
        lsi_array_zero(to, dx->dtype, (size_t)dx->count);
    to += (size_t)state->begin * inner * size;
    for (size_t o = 0; o < outer; o++)
        lsi_array_accumulate(to + o * step * size, from + o * run * size,
                             dx->dtype, run);
    return LS_OK;
}

const ls_function lsi_op_narrow = {"narrow", narrow_backward,
                                   sizeof(narrow_state)};

ls_tensor *ls_narrow(ls_tape *tape, ls_tensor *a, int dim, int64_t begin,
                     int64_t end)
{
    if (!lsi_op_begin(tape, &lsi_op_narrow, &a, 1))
        return NULL;
    const narrow_state state = {dim, begin};
    ls_tensor *y = alias_of(tape, a);
    if (y == NULL)
        return NULL;
    return finish(tape, &lsi_op_narrow, &state, a, y,
                  lsi_view_narrow(y, dim, begin, end));
}

/* ---- slice --------------------------------------------------------------- */

typedef struct slice_state {
    int dim;
    int64_t begin, step;
} slice_state;

static ls_status slice_backward(ls_tape *tape, ls_node *node)
{
    const slice_state *state = ls_node_state(node);
    const ls_tensor *dy = ls_node_grad_output(tape, node, 0);
    lsi_target dx = {0};
    LS_TRY(ls_tape_status(tape));
    LS_TRY(lsi_target_open(tape, node, 0, LSI_LAYOUT_PLAIN, &dx));
    if (dx.grad == NULL)
        return LS_OK;
    lsi_array_zero(lsi_tensor_raw(dx.out), dx.out->dtype,
                   (size_t)dx.out->count);
    if (dy->count > 0) {
        const lsi_strided from = lsi_strided_of(lsi_tensor_raw(dy), dy->dtype,
                                                dy->ndim, dy->strides);
        lsi_strided to =
            lsi_strided_of(NULL, dx.out->dtype, dx.out->ndim, dx.out->strides);
        const int64_t skipped = state->begin * to.strides[state->dim];
        to.strides[state->dim] *= state->step;
        to.data = (char *)lsi_tensor_raw(dx.out) +
                  skipped * (int64_t)ls_dtype_size(dx.out->dtype);
        lsi_copy_strided(&to, &from, dy->ndim, dy->shape);
    }
    return lsi_target_close(&dx);
}

const ls_function lsi_op_slice = {"slice", slice_backward, sizeof(slice_state)};

ls_tensor *ls_slice(ls_tape *tape, ls_tensor *a, int dim, int64_t begin,
                    int64_t end, int64_t step)
{
    if (!lsi_op_begin(tape, &lsi_op_slice, &a, 1))
        return NULL;
    if (step < 1)
        return ls_tape_fail(tape, LS_ERR_ARGUMENT,
                            "slice: step is %lld; it must be at least 1",
                            (long long)step);
    const slice_state state = {dim, begin, step};
    ls_tensor *y = alias_of(tape, a);
    if (y == NULL)
        return NULL;
    return finish(tape, &lsi_op_slice, &state, a, y,
                  lsi_view_slice(y, dim, begin, end, step));
}

/* ---- transpose ----------------------------------------------------------- */

typedef struct transpose_state {
    int a, b;
} transpose_state;

static ls_status transpose_backward(ls_tape *tape, ls_node *node)
{
    const transpose_state *state = ls_node_state(node);
    const ls_tensor *dy = ls_node_grad_output(tape, node, 0);
    LS_TRY(ls_tape_status(tape));
    lsi_target dx = {0};
    LS_TRY(lsi_target_open(tape, node, 0, LSI_LAYOUT_PLAIN, &dx));
    if (dx.grad == NULL)
        return LS_OK;
    ls_tensor *back = NULL;
    LS_TRY(lsi_tensor_alias(dy, tape->pool, &back));
    LS_TRY(lsi_tape_own_temp(tape, back));
    LS_TRY(lsi_view_transpose(back, state->a, state->b));
    LS_TRY(ls_tensor_copy(dx.out, back));
    return lsi_target_close(&dx);
}

const ls_function lsi_op_transpose = {"transpose", transpose_backward,
                                      sizeof(transpose_state)};

ls_tensor *ls_transpose(ls_tape *tape, ls_tensor *a, int x, int y)
{
    if (!lsi_op_begin(tape, &lsi_op_transpose, &a, 1))
        return NULL;
    const transpose_state state = {x, y};
    ls_tensor *view = alias_of(tape, a);
    if (view == NULL)
        return NULL;
    return finish(tape, &lsi_op_transpose, &state, a, view,
                  lsi_view_transpose(view, x, y));
}
