/* Broadcasting; see repeat.h. */
#include "model/autograd/ops/repeat.h"

#include <string.h>

#include "array/compute/copy.h"

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
