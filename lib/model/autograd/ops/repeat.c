/* Broadcasting; see repeat.h. */
#include "model/autograd/ops/repeat.h"

/* The extent of dimension d of ndim, if the tensor's are the last of them. */
static int64_t extent_at(const ls_tensor *t, int ndim, int d)
{
    const int own = d - (ndim - t->ndim);
    return own >= 0 ? t->shape[own] : 1;
}

/* Puts extents of 1 before those that there are. */
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
                         "%s: shapes %s and %s should be equal or broadcast: "
                         "from the last dimension on, equal extents or 1",
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

lsi_axes lsi_op_repetitions(const ls_tensor *y, const ls_tensor *input)
{
    lsi_axes axes = {.ndim = y->ndim};
    for (int d = 0; d < y->ndim; d++) {
        axes.shape[d] = y->shape[d];
        axes.reduced[d] = extent_at(input, y->ndim, d) != y->shape[d];
    }
    return axes;
}
