/* Broadcasting; see repeat.h. */
#include "model/autograd/ops/repeat.h"

#include <string.h>

#include "array/compute/array.h"
#include "array/compute/copy.h"
#include "base/error.h"
#include "model/autograd/params.h"

/* The extent of dimension d of ndim, where the tensor's are the last ones. */
static int64_t extent_at(const ls_tensor *t, int ndim, int d)
{
    const int own = d - (ndim - t->ndim);
    return own >= 0 ? t->shape[own] : 1;
}

/* Prepends extents of 1. */
static void lengthen(lsi_op_shape *shape, int ndim)
{
    const int more = ndim - shape->ndim;
    if (more <= 0)
        return;
    for (int d = ndim - 1; d >= 0; d--)
        shape->extent[d] = d >= more ? shape->extent[d - more] : 1;
    shape->ndim = ndim;
}

bool lsi_op_broadcast(ls_tape *tape, const ls_function *function,
                      const ls_tensor *tensor, lsi_op_shape *shape)
{
    const lsi_op_shape before = *shape;
    lengthen(shape, tensor->ndim);
    for (int d = 0; d < shape->ndim; d++) {
        const int64_t x = shape->extent[d];
        const int64_t y = extent_at(tensor, shape->ndim, d);
        if (x != y && x != 1 && y != 1) {
            ls_tape_fail(tape, LS_ERR_SHAPE,
                         "%s: shapes %s and %s do not broadcast. Compared from "
                         "the last dimension on, two extents must be equal, or "
                         "one of them must be 1",
                         function->name,
                         lsi_shape_format(before.ndim, before.extent).text,
                         lsi_shape_of(tensor).text);
            return false;
        }
        shape->extent[d] = x == 1 ? y : x;
    }
    return true;
}

void lsi_op_repeated_strides(const ls_tensor *tensor, int ndim,
                             int64_t *strides)
{
    int64_t step = 1;
    for (int d = ndim - 1; d >= 0; d--) {
        const int64_t extent = extent_at(tensor, ndim, d);
        strides[d] = extent == 1 ? 0 : step;
        step *= extent;
    }
}

static bool has_shape(const ls_tensor *tensor, const lsi_op_shape *shape)
{
    return tensor->ndim == shape->ndim &&
           memcmp(tensor->shape, shape->extent,
                  (size_t)shape->ndim * sizeof shape->extent[0]) == 0;
}

ls_tensor *lsi_op_repeat(ls_tape *tape, ls_tensor *tensor,
                         const lsi_op_shape *shape)
{
    ls_tensor *from = lsi_op_plain(tape, tensor);
    if (from == NULL || has_shape(from, shape))
        return from;
    ls_tensor *to = lsi_op_temp(tape, from->dtype, shape->ndim, shape->extent);
    if (to == NULL || to->count == 0)
        return to;
    lsi_strided src = {.data = lsi_tensor_raw(from), .dtype = from->dtype};
    lsi_op_repeated_strides(from, shape->ndim, src.strides);
    const lsi_strided dst =
        lsi_strided_of(lsi_tensor_raw(to), to->dtype, to->ndim, to->strides);
    lsi_copy_strided(&dst, &src, to->ndim, to->shape);
    return to;
}

lsi_axes lsi_op_repetitions(const ls_tensor *y, const ls_tensor *input)
{
    lsi_axes axes = {.ndim = y->ndim};
    for (int d = 0; d < y->ndim; d++) {
        axes.shape[d] = y->shape[d];
        axes.reduced[d] = extent_at(input, y->ndim, d) != y->shape[d];
    }
    return axes;
}

/* ---- gradients ----------------------------------------------------------- */

bool lsi_op_repeats_samples(const ls_tape *tape, const ls_node *node,
                            size_t index)
{
    const ls_tensor *const input = ls_node_input(node, index);
    return input->param != NULL && input->param->grad != NULL &&
           (lsi_tape_knows_samples(tape) || lsi_node_is_sliced(node, index)) &&
           extent_at(input, ls_node_output(node, 0)->ndim, 0) == 1;
}

static void add_up(const lsi_axes *axes, float *to, const lsi_repeated_sum *s,
                   size_t first)
{
    if (s->h == NULL)
        lsi_axes_sum(axes, to, s->g + first, s->factor);
    else
        lsi_axes_sum_products(axes, to, s->g + first, s->h + first);
}

/* Each slice of samples goes to the slice's gradient. */
static ls_status sum_slices(ls_tape *tape, ls_node *node, size_t index,
                            lsi_axes axes, const lsi_repeated_sum *sum)
{
    const ls_tensor *const y = ls_node_output(node, 0);
    const ls_tensor *const input = ls_node_input(node, index);
    const size_t n = (size_t)input->count;
    const size_t row = y->shape[0] > 0 ? (size_t)(y->count / y->shape[0]) : 0;
    lsi_slicing s;
    if (!lsi_slicing_of(tape, node->function, input, y->shape[0], &s))
        return ls_tape_status(tape);
    for (int j = 0; j < s.slices; j++) {
        const lsi_range rows = lsi_slicing_rows(&s, j);
        lsi_slice_grad grad;
        LS_TRY(lsi_node_grad_slice(tape, node, index, j, &grad));
        float *const to = grad.accumulate
                              ? ls_tape_scratch(tape, n * sizeof(float))
                              : grad.data;
        LS_TRY(ls_tape_status(tape));
        axes.shape[0] = (int64_t)lsi_range_size(rows);
        axes.reduced[0] = true;
        add_up(&axes, to, sum, rows.begin * row);
        if (grad.accumulate)
            lsi_array_accumulate(grad.data, to, LS_F32, n);
    }
    return LS_OK;
}

ls_status lsi_op_sum_repeated(ls_tape *tape, ls_node *node, size_t index,
                              const lsi_repeated_sum *sum)
{
    const lsi_axes axes =
        lsi_op_repetitions(ls_node_output(node, 0), ls_node_input(node, index));
    lsi_target dx = {0};
    if (lsi_op_repeats_samples(tape, node, index))
        return sum_slices(tape, node, index, axes, sum);
    LS_TRY(lsi_target_open(tape, node, index, LSI_LAYOUT_PLAIN, &dx));
    if (dx.grad == NULL)
        return LS_OK;
    if (axes.ndim > 0 && axes.reduced[0])
        LS_TRY(lsi_node_check_sum(tape, node));
    add_up(&axes, lsi_op_floats(dx.out), sum, 0);
    return lsi_target_close(&dx);
}
