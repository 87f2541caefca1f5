/*
 * Element-wise operations on an f32 tensor, in any layout.
 *
 *     scale  y = a factor    da = dy factor
 *     relu   y = max(a, 0)   da = dy where y > 0, else 0
 *     pow    y = a^p         da = dy p a^(p - 1), 0 for p = 0
 *     clamp  y = a, but at least min and at most max
 *                            da = dy where min <= a <= max, else 0
 *
 * and the functions of array/compute/functions.h. In mixed precision relu keeps
 * the type of its input.
 */
#include "array/compute/array.h"
#include "base/error.h"
#include "model/autograd/ops/ops.h"

ls_status lsi_op_pass_scaled(ls_tape *tape, ls_node *node, int index,
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

/* ---- scale --------------------------------------------------------------- */

static ls_status scale_backward(ls_tape *tape, ls_node *node)
{
    const double *factor = ls_node_state(node);
    return lsi_op_pass_scaled(tape, node, 0, *factor);
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

/* ---- functions ----------------------------------------------------------- */

/* A backward of three arrays: dx from dy and the saved one. */
typedef struct gradient {
    lsi_target dx;
    const float *dy, *saved;
    size_t n;
} gradient;

/* The gradient may be computed in place, so dy is read before it moves. */
static ls_status open_gradient(ls_tape *tape, ls_node *node, gradient *g)
{
    const ls_tensor *dy = lsi_node_grad_output_raw(tape, node, 0);
    const lsi_layout layout = lsi_tensor_layout(dy);
    ls_tensor *saved = NULL;
    g->dy = lsi_op_floats(dy);
    LS_TRY(lsi_tape_in_layout(tape, ls_node_saved(node, 0), layout, &saved));
    g->saved = lsi_op_floats(saved);
    g->n = (size_t)saved->count;
    return lsi_target_open_over(tape, node, 0, layout, &g->dx);
}

static ls_status function_backward(ls_tape *tape, ls_node *node,
                                   const lsi_unary *function)
{
    gradient g = {0};
    LS_TRY(open_gradient(tape, node, &g));
    if (g.dx.grad == NULL)
        return LS_OK;
    lsi_array_unary_backward(function, lsi_op_floats(g.dx.out), g.dy, g.saved,
                             g.n);
    return lsi_target_close(&g.dx);
}

static ls_tensor *apply(ls_tape *tape, const ls_function *op,
                        const lsi_unary *function, ls_tensor *a)
{
    if (!lsi_op_begin_f32(tape, op, &a, 1))
        return NULL;
    ls_tensor *x = lsi_op_dense(tape, a);
    ls_tensor *y = x != NULL ? lsi_op_like(tape, x) : NULL;
    if (y == NULL)
        return NULL;
    lsi_array_unary(function, lsi_op_floats(y), lsi_op_floats(x),
                    (size_t)y->count);
    ls_tensor *const saved = function->saves_input ? x : y;
    return ls_tape_record(tape, op, NULL, &a, 1, &y, 1, &saved, 1);
}

#define X(name, ...)                                                           \
    static ls_status name##_backward(ls_tape *tape, ls_node *node)             \
    {                                                                          \
        return function_backward(tape, node, &lsi_unary_##name);               \
    }                                                                          \
    const ls_function lsi_op_##name = {#name, name##_backward, 0};             \
    ls_tensor *ls_##name(ls_tape *tape, ls_tensor *a)                          \
    {                                                                          \
        return apply(tape, &lsi_op_##name, &lsi_unary_##name, a);              \
    }
LSI_UNARIES(X)
#undef X

/* ---- pow, clamp ---------------------------------------------------------- */

static ls_status pow_backward(ls_tape *tape, ls_node *node)
{
    const double *exponent = ls_node_state(node);
    gradient g = {0};
    LS_TRY(open_gradient(tape, node, &g));
    if (g.dx.grad == NULL)
        return LS_OK;
    lsi_array_pow_backward(lsi_op_floats(g.dx.out), g.dy, g.saved, *exponent,
                           g.n);
    return lsi_target_close(&g.dx);
}

const ls_function lsi_op_pow = {"pow", pow_backward, sizeof(double)};

ls_tensor *ls_pow(ls_tape *tape, ls_tensor *a, double exponent)
{
    if (!lsi_op_begin_f32(tape, &lsi_op_pow, &a, 1))
        return NULL;
    ls_tensor *x = lsi_op_dense(tape, a);
    ls_tensor *y = x != NULL ? lsi_op_like(tape, x) : NULL;
    if (y == NULL)
        return NULL;
    lsi_array_pow(lsi_op_floats(y), lsi_op_floats(x), exponent,
                  (size_t)y->count);
    return ls_tape_record(tape, &lsi_op_pow, &exponent, &a, 1, &y, 1, &x, 1);
}

static ls_status clamp_backward(ls_tape *tape, ls_node *node)
{
    const lsi_clamp *bounds = ls_node_state(node);
    gradient g = {0};
    LS_TRY(open_gradient(tape, node, &g));
    if (g.dx.grad == NULL)
        return LS_OK;
    lsi_array_clamp_backward(lsi_op_floats(g.dx.out), g.dy, g.saved, *bounds,
                             g.n);
    return lsi_target_close(&g.dx);
}

const ls_function lsi_op_clamp = {"clamp", clamp_backward, sizeof(lsi_clamp)};

ls_tensor *ls_clamp(ls_tape *tape, ls_tensor *a, double min, double max)
{
    const lsi_clamp bounds = {(float)min, (float)max};
    if (!lsi_op_begin_f32(tape, &lsi_op_clamp, &a, 1))
        return NULL;
    if (!(min <= max))
        return ls_tape_fail(
            tape, LS_ERR_ARGUMENT,
            "clamp: min is %g and max is %g; min must not be above max", min,
            max);
    ls_tensor *x = lsi_op_dense(tape, a);
    ls_tensor *y = x != NULL ? lsi_op_like(tape, x) : NULL;
    if (y == NULL)
        return NULL;
    lsi_array_clamp(lsi_op_floats(y), lsi_op_floats(x), bounds,
                    (size_t)y->count);
    return ls_tape_record(tape, &lsi_op_clamp, &bounds, &a, 1, &y, 1, &x, 1);
}
