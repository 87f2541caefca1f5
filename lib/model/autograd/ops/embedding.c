/*
 * y (..., D) = the rows of weight (V, D) that indices i64 (...) name.
 *
 *     dweight[v] = sum of dy over the places whose index is v
 */
#include <string.h>

#include "array/compute/array.h"
#include "array/compute/embedding.h"
#include "base/error.h"
#include "model/autograd/ops/ops.h"

enum { WEIGHT, INDICES };

/* Of some of the indices. */
static lsi_embedding problem(const ls_tensor *indices, const ls_tensor *table,
                             lsi_range some)
{
    const int64_t *const all = lsi_tensor_raw(indices);
    return (lsi_embedding){.indices = all + some.begin,
                           .n = lsi_range_size(some),
                           .vocabulary = (size_t)table->shape[0],
                           .cols = (size_t)table->shape[1]};
}

/* Adds up the gradients of a slice. */
static ls_status backward_slice(ls_tape *tape, ls_node *node,
                                const ls_tensor *dy, int slice)
{
    const lsi_slicing *s = ls_node_state(node);
    const ls_tensor *indices = ls_node_saved(node, 0);
    const ls_tensor *table = ls_node_input(node, WEIGHT);
    const lsi_range rows = lsi_slicing_rows(s, slice);
    const size_t batch = s->samples * s->each;
    const size_t each = batch > 0 ? (size_t)indices->count / batch : 0;
    const lsi_range some = {rows.begin * each, rows.end * each};
    lsi_slice_grad dw;
    LS_TRY(lsi_node_grad_slice(tape, node, WEIGHT, slice, &dw));
    if (dw.data == NULL)
        return LS_OK;
    const lsi_embedding e = problem(indices, table, some);
    if (!dw.accumulate)
        lsi_array_fill(dw.data, 0.0F, (size_t)table->count);
    return lsi_embedding_backward(&e, lsi_op_floats(dy) + some.begin * e.cols,
                                  dw.data);
}

static ls_status embedding_backward(ls_tape *tape, ls_node *node)
{
    const lsi_slicing *s = ls_node_state(node);
    const ls_tensor *dy = ls_node_grad_output(tape, node, 0);
    if (dy == NULL)
        return ls_tape_status(tape);
    for (int j = 0; j < s->slices; j++)
        LS_TRY(backward_slice(tape, node, dy, j));
    return LS_OK;
}

const ls_function lsi_op_embedding = {"embedding", embedding_backward,
                                      sizeof(lsi_slicing)};

static bool check(ls_tape *tape, const ls_tensor *weight,
                  const ls_tensor *indices)
{
    const bool widens = !tape->training && lsi_dtype_is_real(weight->dtype);
    if ((!widens &&
         !lsi_op_check_dtype(tape, &lsi_op_embedding, weight, LS_F32)) ||
        !lsi_op_check_dtype(tape, &lsi_op_embedding, indices, LS_I64) ||
        !lsi_op_check_ndim(tape, &lsi_op_embedding, weight, 2,
                           "(V, D) for weight"))
        return false;
    if (indices->ndim < LS_MAX_DIMS)
        return true;
    ls_tape_fail(tape, LS_ERR_SHAPE,
                 "embedding: indices of shape %s have the maximum number of "
                 "dimensions; the result needs one more",
                 lsi_shape_of(indices).text);
    return false;
}

ls_tensor *ls_embedding(ls_tape *tape, ls_tensor *weight, ls_tensor *indices)
{
    ls_tensor *const in[] = {weight, indices};
    int64_t shape[LS_MAX_DIMS];
    lsi_slicing slicing;
    if (!lsi_op_begin(tape, &lsi_op_embedding, in, 2) ||
        !check(tape, weight, indices) ||
        !lsi_slicing_of(tape, &lsi_op_embedding, weight,
                        indices->ndim > 0 ? indices->shape[0] : 1, &slicing))
        return NULL;
    const ls_tensor *rows = lsi_op_plain(tape, weight);
    ls_tensor *const saved[] = {lsi_op_plain(tape, indices)};
    memcpy(shape, indices->shape, (size_t)indices->ndim * sizeof shape[0]);
    shape[indices->ndim] = weight->shape[1];
    ls_tensor *y = ls_tape_output(tape, LS_F32, indices->ndim + 1, shape);
    if (y == NULL)
        return NULL;
    const lsi_embedding e =
        problem(saved[0], weight, (lsi_range){0, (size_t)indices->count});
    const ls_status status = lsi_embedding_forward(
        &e, lsi_tensor_raw(rows), rows->dtype, lsi_op_floats(y));
    if (status != LS_OK)
        return lsi_tape_stop(tape, status);
    return ls_tape_record(tape, &lsi_op_embedding, &slicing, &weight, 1, &y, 1,
                          saved, 1);
}
