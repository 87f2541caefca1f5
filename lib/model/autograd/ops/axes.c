/*
 * Reductions of an f32 tensor x over some of its axes, to y, and the reverse.
 *
 *     sum_axes     y = sum of x          dx = dy, repeated
 *     mean_axes    y = sum of x / n      dx = dy / n, repeated
 *     max_axes     y = largest of x      dx = dy / k at the k largest, else 0
 *     expand       y = x, repeated       dx = sum of dy
 */
#include "array/compute/axes.h"
#include "base/error.h"
#include "model/autograd/ops/repeat.h"

typedef struct axes_state {
    lsi_axes axes;
    double factor;
} axes_state;

/* ---- the requested axes -------------------------------------------------- */

static bool mark_axes(ls_tape *tape, const ls_function *function,
                      const ls_tensor *x, const int *list, size_t n,
                      lsi_axes *axes)
{
    axes->ndim = x->ndim;
    for (int d = 0; d < x->ndim; d++)
        axes->shape[d] = x->shape[d];
    for (size_t i = 0; i < n; i++) {
        const int axis = list[i];
        if (!lsi_op_check_axis(tape, function, x, axis))
            return false;
        if (axes->reduced[axis]) {
            ls_tape_fail(tape, LS_ERR_ARGUMENT, "%s: axis %d is given twice",
                         function->name, axis);
            return false;
        }
        axes->reduced[axis] = true;
    }
    return true;
}

static ls_tensor *new_output(ls_tape *tape, const lsi_axes *axes,
                             ls_axes_kept kept)
{
    int ndim = 0;
    int64_t shape[LS_MAX_DIMS];
    for (int d = 0; d < axes->ndim; d++) {
        if (axes->reduced[d] && kept == LS_AXES_DROP)
            continue;
        shape[ndim++] = axes->reduced[d] ? 1 : axes->shape[d];
    }
    return ls_tape_output(tape, LS_F32, ndim, shape);
}

static int64_t elements_of_each(const lsi_axes *axes)
{
    int64_t n = 1;
    for (int d = 0; d < axes->ndim; d++)
        n *= axes->reduced[d] ? axes->shape[d] : 1;
    return n;
}

static bool begin(ls_tape *tape, const ls_function *function, ls_tensor **x,
                  const int *axes, size_t n, axes_state *state)
{
    if (!lsi_op_begin_f32(tape, function, x, 1))
        return false;
    if (n > 0 && !lsi_tape_has(tape, axes, function->name, "axes"))
        return false;
    return mark_axes(tape, function, *x, axes, n, &state->axes);
}

/* ---- sum, mean ----------------------------------------------------------- */

static ls_status spread(ls_tape *tape, ls_node *node)
{
    const axes_state *state = ls_node_state(node);
    const ls_tensor *dy = ls_node_grad_output(tape, node, 0);
    lsi_target dx = {0};
    LS_TRY(ls_tape_status(tape));
    LS_TRY(lsi_target_open(tape, node, 0, LSI_LAYOUT_PLAIN, &dx));
    if (dx.grad == NULL)
        return LS_OK;
    lsi_axes_spread(&state->axes, lsi_op_floats(dx.out), lsi_op_floats(dy),
                    state->factor);
    return lsi_target_close(&dx);
}

const ls_function lsi_op_sum_axes = {"sum_axes", spread, sizeof(axes_state)};
const ls_function lsi_op_mean_axes = {"mean_axes", spread, sizeof(axes_state)};

static ls_tensor *sum(ls_tape *tape, const ls_function *function, ls_tensor *a,
                      const axes_state *state, ls_axes_kept kept)
{
    const ls_tensor *x = lsi_op_plain(tape, a);
    ls_tensor *y = new_output(tape, &state->axes, kept);
    if (y == NULL)
        return NULL;
    lsi_axes_sum(&state->axes, lsi_op_floats(y), lsi_op_floats(x),
                 state->factor);
    return ls_tape_record(tape, function, state, &a, 1, &y, 1, NULL, 0);
}

ls_tensor *ls_sum_axes(ls_tape *tape, ls_tensor *a, const int *axes, size_t n,
                       ls_axes_kept kept)
{
    axes_state state = {.factor = 1.0};
    if (!begin(tape, &lsi_op_sum_axes, &a, axes, n, &state))
        return NULL;
    return sum(tape, &lsi_op_sum_axes, a, &state, kept);
}

ls_tensor *ls_mean_axes(ls_tape *tape, ls_tensor *a, const int *axes, size_t n,
                        ls_axes_kept kept)
{
    axes_state state = {0};
    if (!begin(tape, &lsi_op_mean_axes, &a, axes, n, &state))
        return NULL;
    const int64_t each = elements_of_each(&state.axes);
    state.factor = each > 0 ? 1.0 / (double)each : 0.0;
    return sum(tape, &lsi_op_mean_axes, a, &state, kept);
}

/* ---- expand -------------------------------------------------------------- */

static ls_status expand_backward(ls_tape *tape, ls_node *node)
{
    const ls_tensor *dy = ls_node_grad_output(tape, node, 0);
    LS_TRY(ls_tape_status(tape));
    return lsi_op_sum_repeated(
        tape, node, 0,
        &(lsi_repeated_sum){.g = lsi_op_floats(dy), .factor = 1.0});
}

const ls_function lsi_op_expand = {"expand", expand_backward, 0};

/* Marks the dimensions of the shape along which x is repeated. */
static bool mark_repeated(ls_tape *tape, const ls_tensor *x, int ndim,
                          const int64_t *shape, lsi_axes *axes)
{
    int64_t count = 0;
    const ls_status status = lsi_shape_check(LS_F32, ndim, shape, &count);
    if (status != LS_OK)
        return lsi_tape_stop(tape, status) != NULL;
    bool fits = x->ndim <= ndim;
    axes->ndim = ndim;
    for (int d = 0; fits && d < ndim; d++) {
        const int own = d - (ndim - x->ndim);
        const int64_t extent = own >= 0 ? x->shape[own] : 1;
        axes->shape[d] = shape[d];
        axes->reduced[d] = extent != shape[d];
        fits = extent == shape[d] || extent == 1;
    }
    if (!fits)
        ls_tape_fail(tape, LS_ERR_SHAPE,
                     "expand: the shape %s does not broadcast to %s",
                     lsi_shape_of(x).text, lsi_shape_format(ndim, shape).text);
    return fits;
}

ls_tensor *ls_expand(ls_tape *tape, ls_tensor *a, int ndim,
                     const int64_t *shape)
{
    axes_state state = {.factor = 1.0};
    if (!lsi_op_begin_f32(tape, &lsi_op_expand, &a, 1) ||
        (ndim > 0 && !lsi_tape_has(tape, shape, "expand", "shape")) ||
        !mark_repeated(tape, a, ndim, shape, &state.axes))
        return NULL;
    const ls_tensor *x = lsi_op_plain(tape, a);
    ls_tensor *y = ls_tape_output(tape, LS_F32, ndim, shape);
    if (y == NULL)
        return NULL;
    lsi_axes_spread(&state.axes, lsi_op_floats(y), lsi_op_floats(x), 1.0);
    return ls_tape_record(tape, &lsi_op_expand, NULL, &a, 1, &y, 1, NULL, 0);
}

/* ---- max ----------------------------------------------------------------- */

enum { X, Y };

static ls_status max_backward(ls_tape *tape, ls_node *node)
{
    const axes_state *state = ls_node_state(node);
    const ls_tensor *x = ls_node_saved(node, X), *y = ls_node_saved(node, Y);
    const ls_tensor *dy = ls_node_grad_output(tape, node, 0);
    lsi_target dx = {0};
    LS_TRY(ls_tape_status(tape));
    LS_TRY(lsi_target_open(tape, node, 0, LSI_LAYOUT_PLAIN, &dx));
    if (dx.grad == NULL)
        return LS_OK;
    uint64_t *counts = ls_tape_scratch(tape, (size_t)y->count * sizeof *counts);
    LS_TRY(ls_tape_status(tape));
    lsi_axes_max_backward(&state->axes, lsi_op_floats(dx.out),
                          lsi_op_floats(dy), lsi_op_floats(x), lsi_op_floats(y),
                          counts);
    return lsi_target_close(&dx);
}

const ls_function lsi_op_max_axes = {"max_axes", max_backward,
                                     sizeof(axes_state)};

ls_tensor *ls_max_axes(ls_tape *tape, ls_tensor *a, const int *axes, size_t n,
                       ls_axes_kept kept)
{
    axes_state state = {.factor = 1.0};
    if (!begin(tape, &lsi_op_max_axes, &a, axes, n, &state))
        return NULL;
    for (int d = 0; d < a->ndim; d++) {
        if (state.axes.reduced[d] &&
            !lsi_op_check_filled(tape, &lsi_op_max_axes, a, d))
            return NULL;
    }
    ls_tensor *x = lsi_op_plain(tape, a);
    ls_tensor *y = new_output(tape, &state.axes, kept);
    if (y == NULL)
        return NULL;
    lsi_axes_max(&state.axes, lsi_op_floats(y), lsi_op_floats(x));
    ls_tensor *const saved[] = {x, y};
    return ls_tape_record(tape, &lsi_op_max_axes, &state, &a, 1, &y, 1, saved,
                          2);
}
