/*
 * y (N, C, OH, OW) = means or maxima of windows of x (N, C, H, W). Windows may
 * overlap and reach over the border. y has the layout of x, which is any.
 *
 *     means     dx = dy / size^2 at each pixel of the window
 *     maxima    dx = dy at the first maximum of its window
 *
 * Where windows overlap, gradients add up. The place of each maximum is saved,
 * one byte per element of y.
 */
#include "base/error.h"
#include "base/structs.h"
#include "model/autograd/ops/ops.h"

/* ---- backward ------------------------------------------------------------ */

static ls_status backward(ls_tape *tape, ls_node *node)
{
    const lsi_window2d *s = ls_node_state(node);
    const ls_tensor *index = ls_node_saved(node, 0); /* NULL for means */
    ls_tensor *dy = NULL;
    lsi_target dx = {0};
    LS_TRY(lsi_node_grad_output_in(tape, node, 0, s->layout, &dy, NULL));
    LS_TRY(lsi_target_open(tape, node, 0, s->layout, &dx));
    if (dx.grad == NULL)
        return LS_OK;
    if (index == NULL)
        lsi_avg_window2d_backward(s, lsi_op_floats(dx.out), lsi_op_floats(dy));
    else
        lsi_max_window2d_backward(s, lsi_op_floats(dx.out), lsi_op_floats(dy),
                                  lsi_tensor_raw(index));
    return lsi_target_close(&dx);
}

const ls_function lsi_op_avg_pool2d = {"avg_pool2d", backward,
                                       sizeof(lsi_window2d)};
const ls_function lsi_op_max_window2d = {"max_window2d", backward,
                                         sizeof(lsi_window2d)};

/* ---- forward ------------------------------------------------------------- */

typedef struct windows {
    int size, stride, padding;
} windows;

static bool check(ls_tape *tape, const ls_function *function,
                  const ls_tensor *x, const windows *o)
{
    if (!lsi_op_check_ndim(tape, function, x, 4, "(N, C, H, W) for x"))
        return false;
    if (o->size < 1 || o->size > 15 || o->stride < 0 || o->padding < 0 ||
        o->padding > o->size / 2)
        return ls_tape_fail(tape, LS_ERR_ARGUMENT,
                            "%s: size is %d, stride %d and padding %d; size "
                            "must be from 1 to 15, stride at least 0, and "
                            "padding from 0 to size / 2",
                            function->name, o->size, o->stride,
                            o->padding) != NULL;
    if (x->shape[2] > 0 && x->shape[3] > 0 &&
        x->shape[2] + 2 * o->padding >= o->size &&
        x->shape[3] + 2 * o->padding >= o->size)
        return true;
    return ls_tape_fail(tape, LS_ERR_SHAPE,
                        "%s: a window of %d x %d does not fit images of shape "
                        "%s (N, C, H, W) with padding %d",
                        function->name, o->size, o->size, lsi_shape_of(x).text,
                        o->padding) != NULL;
}

static lsi_window2d shape_of(const ls_tensor *x, const windows *o)
{
    const int64_t *e = x->shape, pad = 2 * (int64_t)o->padding;
    const int64_t stride = o->stride;
    return (lsi_window2d){.n = e[0],
                          .c = e[1],
                          .h = e[2],
                          .w = e[3],
                          .oh = (e[2] + pad - o->size) / stride + 1,
                          .ow = (e[3] + pad - o->size) / stride + 1,
                          .size = o->size,
                          .stride = stride,
                          .padding = o->padding,
                          .layout = lsi_tensor_layout(x)};
}

static ls_tensor *pool(ls_tape *tape, const ls_function *function, ls_tensor *x,
                       const windows *w)
{
    const bool max = function == &lsi_op_max_window2d;
    const ls_function *const called = max ? &lsi_op_max_pool2d : function;
    if (!lsi_op_begin_f32(tape, called, &x, 1) || !check(tape, called, x, w))
        return NULL;
    const ls_tensor *dense = lsi_op_dense(tape, x);
    if (dense == NULL)
        return NULL;
    const lsi_window2d s = shape_of(dense, w);
    const int64_t out[4] = {s.n, s.c, s.oh, s.ow};
    ls_tensor *index = max ? lsi_op_temp(tape, LS_U8, 4, out) : NULL;
    ls_tensor *y = lsi_op_output(tape, LS_F32, 4, out, s.layout);
    if (y == NULL || ls_tape_status(tape) != LS_OK)
        return NULL;
    if (max)
        lsi_max_window2d(&s, lsi_op_floats(y), lsi_tensor_raw(index),
                         lsi_op_floats(dense));
    else
        lsi_avg_window2d(&s, lsi_op_floats(y), lsi_op_floats(dense));
    return ls_tape_record(tape, function, &s, &x, 1, &y, 1, &index,
                          max ? 1 : 0);
}

/* The options for windows of this size; a stride of 0 means the size. */
static ls_status read_options(int size, const ls_pool2d_options *given,
                              windows *out)
{
    static const ls_pool2d_options usual = LS_POOL2D_OPTIONS_INIT;
    ls_pool2d_options o;
    LS_TRY(LSI_STRUCT_READ(&o, given != NULL ? given : &usual,
                           ls_pool2d_options, padding));
    *out = (windows){size, o.stride != 0 ? o.stride : size, o.padding};
    return LS_OK;
}

ls_tensor *ls_avg_pool2d(ls_tape *tape, ls_tensor *x, int size,
                         const ls_pool2d_options *options)
{
    windows w;
    if (!lsi_op_begin(tape, &lsi_op_avg_pool2d, &x, 1))
        return NULL;
    const ls_status status = read_options(size, options, &w);
    return status == LS_OK ? pool(tape, &lsi_op_avg_pool2d, x, &w)
                           : lsi_tape_stop(tape, status);
}

ls_tensor *ls_max_pool2d(ls_tape *tape, ls_tensor *x, int size,
                         const ls_pool2d_options *options)
{
    windows w;
    if (!lsi_op_begin(tape, &lsi_op_max_pool2d, &x, 1))
        return NULL;
    const ls_status status = read_options(size, options, &w);
    if (status != LS_OK)
        return lsi_tape_stop(tape, status);
    if (w.stride == size && w.padding == 0)
        return lsi_max_pool2d(tape, x, size);
    return pool(tape, &lsi_op_max_window2d, x, &w);
}
