/*
 * y (N, O, OH, OW) = x (N, C, H, W) * weight (O, C / groups, KH, KW) + bias
 * (O), then max(y, 0) with relu. For OH see lsi_conv2d_extent.
 *
 *     dz       = dy, or dy where y > 0 with relu
 *     dx       = transposed convolution of dz with weight
 *     dweight  = correlation of x with dz
 *     dbias    = sum of dz over N, OH, OW
 *
 * x and y have the layouts that the plan prefers; they are converted only if
 * their neighbours use other layouts. Each slice of the batch is computed
 * separately, by the plan for its size. Portable bits of an image do not depend
 * on its batch, so y and dx are then computed for all slices at once.
 *
 * x, weight and y have one type; the gradients of parameters are f32. Half
 * types that the plan does not support are converted to f32, in which their
 * products are exact, and results are rounded once.
 */
#include <assert.h>

#include "array/compute/array.h"
#include "base/bits.h"
#include "base/error.h"
#include "base/structs.h"
#include "model/autograd/layer_span.h"
#include "model/autograd/ops/ops.h"

enum { X, WEIGHT, BIAS };

typedef struct conv_state {
    /*
     * Plans for the larger slices (NULL: empty batch) and for slices with one
     * image less (NULL: none).
     */
    lsi_conv2d_plan *plan, *smaller;
    lsi_conv2d_plan *whole; /* for y and dx of all slices; NULL: by slices */
    int slices;
    bool relu, bias;
    ls_dtype dtype; /* type in which the plan computes */
} conv_state;

/* ---- types --------------------------------------------------------------- */

/* An array that plans read or write, in their type. */
typedef struct typed {
    char *data;
    ls_dtype dtype;
} typed;

static void *typed_at(const typed *array, size_t element)
{
    return array->data + element * ls_dtype_size(array->dtype);
}

/* Scratch memory; ls_tape_status has the error on failure. */
static typed scratch_of(ls_tape *tape, const ls_tensor *like, ls_dtype dtype)
{
    const size_t bytes = (size_t)like->count * ls_dtype_size(dtype);
    return (typed){ls_tape_scratch(tape, bytes), dtype};
}

/* A tensor's elements as a plan reads them, converted if necessary. */
static ls_status read_as(ls_tape *tape, const ls_tensor *tensor, ls_dtype dtype,
                         typed *out)
{
    *out = (typed){lsi_tensor_raw(tensor), dtype};
    if (tensor->dtype == dtype)
        return LS_OK;
    *out = scratch_of(tape, tensor, dtype);
    LS_TRY(ls_tape_status(tape));
    lsi_array_convert(out->data, dtype, lsi_tensor_raw(tensor), tensor->dtype,
                      (size_t)tensor->count);
    return LS_OK;
}

/* A plan's target for a tensor: in place, or elsewhere until finish_write. */
static ls_status write_as(ls_tape *tape, const ls_tensor *tensor,
                          ls_dtype dtype, typed *out)
{
    *out = tensor->dtype == dtype ? (typed){lsi_tensor_raw(tensor), dtype}
                                  : scratch_of(tape, tensor, dtype);
    return ls_tape_status(tape);
}

static void finish_write(const ls_tensor *tensor, const typed *written)
{
    if (tensor->dtype != written->dtype)
        lsi_array_convert(lsi_tensor_raw(tensor), tensor->dtype, written->data,
                          written->dtype, (size_t)tensor->count);
}

/* ---- slices -------------------------------------------------------------- */

/*
 * The plan of a slice, and the numbers of elements of x and y before the slice.
 */
typedef struct part {
    lsi_conv2d_plan *plan; /* NULL: empty slice */
    size_t x, y;
} part;

static part part_of(const conv_state *s, const ls_tensor *x, const ls_tensor *y,
                    int slice)
{
    const int64_t n = x->shape[0];
    const lsi_range rows = lsi_slice_rows(n, s->slices, slice);
    const size_t size = lsi_range_size(rows);
    const bool large = size == lsi_range_size(lsi_slice_rows(n, s->slices, 0));
    return (part){.plan = large ? s->plan : s->smaller,
                  .x = rows.begin * (size_t)(x->count / n),
                  .y = rows.begin * (size_t)(y->count / n)};
}

/* The parts in which y or dx are computed. */
static int image_parts(const conv_state *s)
{
    return s->whole != NULL ? 1 : s->slices;
}

static part image_part(const conv_state *s, const ls_tensor *x,
                       const ls_tensor *y, int index)
{
    return s->whole != NULL ? (part){.plan = s->whole}
                            : part_of(s, x, y, index);
}

/* ---- backward ------------------------------------------------------------ */

/* The gradient before the relu, in the plan's layout. */
static ls_status grad_before_relu(ls_tape *tape, ls_node *node,
                                  const ls_tensor **out)
{
    const conv_state *s = ls_node_state(node);
    const lsi_layout layout = lsi_conv2d_dst_layout(s->plan);
    ls_tensor *dy = NULL, *y = NULL;
    bool exclusive = false;
    LS_TRY(lsi_node_grad_output_in(tape, node, 0, layout, &dy, &exclusive));
    *out = dy;
    if (!s->relu)
        return LS_OK;
    ls_tensor *dz = dy;
    if (!exclusive)
        LS_TRY(lsi_tape_temp(tape, dy->dtype, 4, dy->shape, layout, &dz));
    LS_TRY(lsi_tape_in_layout(tape, ls_node_output(node, 0), layout, &y));
    lsi_mixed_relu_backward(lsi_op_mixed(dz), lsi_op_mixed(dy), lsi_op_mixed(y),
                            (size_t)y->count);
    *out = dz;
    return LS_OK;
}

/*
 * A gradient that the kernel always computes, needed or not. The gradient of a
 * half weight is summed in f32 and rounded at the end.
 */
typedef struct sink {
    float *data;
    bool accumulate;
    size_t count;
    lsi_slice_grad half; /* target of a half gradient, or empty */
} sink;

static ls_status open_sink(ls_tape *tape, ls_node *node, int index, int slice,
                           size_t count, sink *out)
{
    lsi_slice_grad grad;
    LS_TRY(lsi_node_grad_slice(tape, node, index, slice, &grad));
    *out = (sink){
        .data = grad.data, .accumulate = grad.accumulate, .count = count};
    const bool half = grad.data != NULL && grad.dtype != LS_F32;
    if (grad.data == NULL || half)
        out->data = ls_tape_scratch(tape, count * sizeof(float));
    LS_TRY(ls_tape_status(tape));
    if (!half)
        return LS_OK;
    out->half = grad;
    if (grad.accumulate)
        lsi_array_convert(out->data, LS_F32, grad.data, grad.dtype, count);
    return LS_OK;
}

static void close_sink(const sink *s)
{
    if (s->half.data != NULL)
        lsi_array_convert(s->half.data, s->half.dtype, s->data, LS_F32,
                          s->count);
}

static void clear(sink *s)
{
    if (!s->accumulate)
        lsi_array_zero(s->data, LS_F32, s->count);
    s->accumulate = true;
}

/*
 * The kernel accumulates both gradients or neither, so a new one may need
 * zeros.
 */
static ls_status open_sinks(ls_tape *tape, ls_node *node, int slice, bool empty,
                            sink *dw, sink *db)
{
    const conv_state *s = ls_node_state(node);
    const ls_tensor *weight = ls_node_saved(node, WEIGHT);
    LS_TRY(open_sink(tape, node, WEIGHT, slice, (size_t)weight->count, dw));
    if (s->bias)
        LS_TRY(
            open_sink(tape, node, BIAS, slice, (size_t)weight->shape[0], db));
    if (empty || (s->bias && dw->accumulate != db->accumulate)) {
        clear(dw);
        if (s->bias)
            clear(db);
    }
    return LS_OK;
}

static bool needs_weights(const ls_tape *tape, const ls_node *node)
{
    return lsi_tape_needs(tape, ls_node_input(node, WEIGHT)) ||
           lsi_tape_needs(tape, ls_node_input(node, BIAS));
}

static ls_status backward_weight(ls_tape *tape, ls_node *node,
                                 const ls_tensor *dz)
{
    const conv_state *s = ls_node_state(node);
    const ls_tensor *x = ls_node_saved(node, X);
    typed src, ddst;
    if (!needs_weights(tape, node))
        return LS_OK;
    LS_TRY(read_as(tape, x, s->dtype, &src));
    LS_TRY(read_as(tape, dz, s->dtype, &ddst));
    LSI_LAYER(ls_node_input(node, WEIGHT), "conv2d", LSI_PASS_WEIGHT);
    for (int j = 0; j < s->slices; j++) {
        const part p = part_of(s, x, dz, j);
        sink dw = {0}, db = {0};
        if (p.plan == NULL)
            continue;
        LS_TRY(open_sinks(tape, node, j, false, &dw, &db));
        LS_TRY(lsi_conv2d_backward_weight(p.plan, dw.data, db.data,
                                          typed_at(&src, p.x),
                                          typed_at(&ddst, p.y), dw.accumulate));
        close_sink(&dw);
    }
    return LS_OK;
}

static ls_status backward_x(ls_tape *tape, ls_node *node, const ls_tensor *dz)
{
    const conv_state *s = ls_node_state(node);
    lsi_target dx = {0};
    typed ddst, weight, dsrc;
    LS_TRY(lsi_target_open(tape, node, X, lsi_conv2d_src_layout(s->plan), &dx));
    if (dx.grad == NULL)
        return LS_OK;
    LS_TRY(read_as(tape, dz, s->dtype, &ddst));
    LS_TRY(read_as(tape, ls_node_saved(node, WEIGHT), s->dtype, &weight));
    LS_TRY(write_as(tape, dx.out, s->dtype == LS_F32 ? LS_F32 : dx.out->dtype,
                    &dsrc));
    LSI_LAYER(ls_node_input(node, WEIGHT), "conv2d", LSI_PASS_DATA);
    for (int j = 0; j < image_parts(s); j++) {
        const part p = image_part(s, dx.out, dz, j);
        if (p.plan != NULL)
            LS_TRY(lsi_conv2d_backward_data(p.plan, typed_at(&dsrc, p.x),
                                            typed_at(&ddst, p.y), weight.data));
    }
    finish_write(dx.out, &dsrc);
    return lsi_target_close(&dx);
}

/* Backward of an empty batch: x gets an empty gradient, weights get zeros. */
static ls_status backward_empty(ls_tape *tape, ls_node *node)
{
    bool accumulate = false;
    sink dw = {0}, db = {0};
    ls_node_grad_input(tape, node, X, &accumulate);
    if (!needs_weights(tape, node))
        return LS_OK;
    LS_TRY(open_sinks(tape, node, 0, true, &dw, &db));
    close_sink(&dw);
    return LS_OK;
}

static ls_status conv2d_backward(ls_tape *tape, ls_node *node)
{
    const conv_state *s = ls_node_state(node);
    if (s->plan == NULL)
        return backward_empty(tape, node);
    const ls_tensor *dz = NULL;
    LS_TRY(grad_before_relu(tape, node, &dz));
    LS_TRY(backward_weight(tape, node, dz));
    return backward_x(tape, node, dz);
}

const ls_function lsi_op_conv2d = {"conv2d", conv2d_backward,
                                   sizeof(conv_state)};

/* ---- forward ------------------------------------------------------------- */

static bool check_types(ls_tape *tape, ls_tensor *const *in)
{
    const ls_tensor *x = in[X], *weight = in[WEIGHT], *bias = in[BIAS];
    if (!lsi_dtype_is_real(x->dtype))
        return ls_tape_fail(tape, LS_ERR_DTYPE,
                            "conv2d: x is %s; it must be f32, bf16 or f16",
                            ls_dtype_name(x->dtype)) != NULL;
    return lsi_op_check_dtype(tape, &lsi_op_conv2d, weight, x->dtype) &&
           (bias == NULL ||
            lsi_op_check_dtype(tape, &lsi_op_conv2d, bias, LS_F32));
}

ls_status lsi_conv2d_options(ls_conv2d_options *out,
                             const ls_conv2d_options *given)
{
    static const ls_conv2d_options usual = LS_CONV2D_OPTIONS_INIT;
    LS_TRY(LSI_STRUCT_READ(out, given != NULL ? given : &usual,
                           ls_conv2d_options, no_bias));
    out->stride = out->stride != 0 ? out->stride : usual.stride;
    out->dilation = out->dilation != 0 ? out->dilation : usual.dilation;
    out->groups = out->groups != 0 ? out->groups : usual.groups;
    return LS_OK;
}

static bool apply_options(ls_tape *tape, const ls_conv2d_options *given,
                          lsi_conv2d_shape *shape)
{
    ls_conv2d_options options;
    const ls_status status = lsi_conv2d_options(&options, given);
    if (status != LS_OK)
        return lsi_tape_stop(tape, status) != NULL;
    if (options.stride < 0 || options.padding < 0 || options.dilation < 0 ||
        options.groups < 0)
        return ls_tape_fail(tape, LS_ERR_ARGUMENT,
                            "conv2d: stride %d, padding %d, dilation %d and "
                            "groups %d must not be negative",
                            options.stride, options.padding, options.dilation,
                            options.groups) != NULL;
    shape->stride = options.stride;
    shape->padding = options.padding;
    shape->dilation = options.dilation;
    shape->groups = options.groups;
    shape->relu = options.relu;
    return true;
}

static bool check(ls_tape *tape, ls_tensor *const *in, lsi_conv2d_shape *shape)
{
    const ls_tensor *x = in[X], *weight = in[WEIGHT], *bias = in[BIAS];
    if (!lsi_op_check_ndim(tape, &lsi_op_conv2d, x, 4, "(N, C, H, W) for x") ||
        !lsi_op_check_ndim(tape, &lsi_op_conv2d, weight, 4,
                           "(O, C / groups, KH, KW) for weight"))
        return false;
    if (shape->groups < 1 || x->shape[1] != weight->shape[1] * shape->groups ||
        weight->shape[0] % shape->groups != 0 || weight->count == 0)
        return ls_tape_fail(
                   tape, LS_ERR_SHAPE,
                   "conv2d: x of shape %s and weight of shape %s do not fit "
                   "together; they must be (N, C, H, W) and (O, C / groups, "
                   "KH, KW). groups is %lld and must divide C and O",
                   lsi_shape_of(x).text, lsi_shape_of(weight).text,
                   (long long)shape->groups) != NULL;
    if (bias != NULL && (bias->ndim != 1 || bias->shape[0] != weight->shape[0]))
        return ls_tape_fail(tape, LS_ERR_SHAPE,
                            "conv2d: bias has shape %s; weight of shape %s (O, "
                            "C / groups, KH, KW) needs a bias of shape (O)",
                            lsi_shape_of(bias).text,
                            lsi_shape_of(weight).text) != NULL;
    shape->n = x->shape[0];
    shape->c = x->shape[1];
    shape->h = x->shape[2];
    shape->w = x->shape[3];
    shape->o = weight->shape[0];
    shape->kh = weight->shape[2];
    shape->kw = weight->shape[3];
    shape->bias = bias != NULL;
    if (shape->h + 2 * shape->padding > (shape->kh - 1) * shape->dilation &&
        shape->w + 2 * shape->padding > (shape->kw - 1) * shape->dilation)
        return true;
    return ls_tape_fail(
               tape, LS_ERR_SHAPE,
               "conv2d: a kernel of %lld x %lld with dilation %lld does not "
               "fit an image of %lld x %lld pixels with padding %lld",
               (long long)shape->kh, (long long)shape->kw,
               (long long)shape->dilation, (long long)shape->h,
               (long long)shape->w, (long long)shape->padding) != NULL;
}

static ls_tensor *new_output(ls_tape *tape, const lsi_conv2d_shape *shape,
                             ls_dtype dtype, lsi_layout layout)
{
    const int64_t extents[4] = {shape->n, shape->o,
                                lsi_conv2d_extent(shape, shape->h, shape->kh),
                                lsi_conv2d_extent(shape, shape->w, shape->kw)};
    return lsi_op_output(tape, dtype, 4, extents, layout);
}

/*
 * Makes the plans, which have equal layouts, since layouts do not depend on n.
 */
static ls_status make_plans(const lsi_conv2d_shape *shape, conv_state *s)
{
    lsi_conv2d_shape slice = *shape;
    slice.n = (shape->n + s->slices - 1) / s->slices;
    LS_TRY(lsi_conv2d_plan_get(&slice, &s->plan));
    s->dtype = lsi_conv2d_dtype(s->plan);
    if (lsi_bits_are_portable())
        LS_TRY(lsi_conv2d_plan_get(shape, &s->whole));
    slice.n = shape->n / s->slices;
    return slice.n > 0 ? lsi_conv2d_plan_get(&slice, &s->smaller) : LS_OK;
}

/* Makes the plans and the tensors that backward needs. */
static ls_status prepare(ls_tape *tape, const lsi_conv2d_shape *shape,
                         ls_tensor **saved, conv_state *s,
                         lsi_layout *dst_layout)
{
    *dst_layout = LSI_LAYOUT_PLAIN;
    if (saved[X] == NULL || saved[WEIGHT] == NULL || shape->n == 0)
        return tape->status;
    LS_TRY(make_plans(shape, s));
    *dst_layout = lsi_conv2d_dst_layout(s->plan);
    return lsi_tape_in_layout(tape, saved[X], lsi_conv2d_src_layout(s->plan),
                              &saved[X]);
}

static ls_status forward(ls_tape *tape, const conv_state *s, const ls_tensor *y,
                         ls_tensor *const *inputs, ls_tensor *const *saved,
                         const ls_tensor *bias)
{
    typed src, weight, dst;
    LS_TRY(read_as(tape, saved[X], s->dtype, &src));
    LS_TRY(read_as(tape, saved[WEIGHT], s->dtype, &weight));
    LS_TRY(write_as(tape, y, s->dtype, &dst));
    LSI_LAYER(inputs[WEIGHT], "conv2d", LSI_PASS_FORWARD);
    for (int j = 0; j < image_parts(s); j++) {
        const part p = image_part(s, saved[X], y, j);
        if (p.plan != NULL)
            LS_TRY(lsi_conv2d_forward(
                p.plan, typed_at(&dst, p.y), typed_at(&src, p.x), weight.data,
                bias != NULL ? lsi_op_floats(bias) : NULL));
    }
    finish_write(y, &dst);
    return LS_OK;
}

static ls_tensor *compute(ls_tape *tape, const lsi_conv2d_shape *shape,
                          ls_tensor *const *inputs, ls_tensor *const *operands)
{
    conv_state state = {.relu = shape->relu, .bias = shape->bias, .slices = 1};
    lsi_slicing slicing;
    if (!lsi_slicing_of(tape, &lsi_op_conv2d, inputs[WEIGHT], shape->n,
                        &slicing))
        return NULL;
    if (slicing.each > 1)
        return ls_tape_fail(tape, LS_ERR_SHAPE,
                            "conv2d: x has %lld images, but the tape's batch "
                            "has %zu samples; with slices the two must be "
                            "equal",
                            (long long)shape->n, slicing.samples);
    state.slices = slicing.slices;
    ls_tensor *saved[] = {lsi_op_dense(tape, operands[X]),
                          lsi_op_plain(tape, operands[WEIGHT])};
    const ls_tensor *bias =
        shape->bias ? lsi_op_plain(tape, inputs[BIAS]) : NULL;
    lsi_layout layout = LSI_LAYOUT_PLAIN;
    ls_status status = prepare(tape, shape, saved, &state, &layout);
    ls_tensor *y = status == LS_OK
                       ? new_output(tape, shape, operands[X]->dtype, layout)
                       : NULL;
    if (y != NULL && state.plan != NULL)
        status = forward(tape, &state, y, inputs, saved, bias);
    if (y == NULL || status != LS_OK)
        return lsi_tape_stop(tape, status);
    return ls_tape_record(tape, &lsi_op_conv2d, &state, inputs, 3, &y, 1, saved,
                          2);
}

ls_tensor *ls_conv2d(ls_tape *tape, ls_tensor *x, ls_tensor *weight,
                     ls_tensor *bias, const ls_conv2d_options *options)
{
    ls_tensor *const inputs[] = {x, weight, bias};
    lsi_conv2d_shape shape = {0};
    if (!lsi_op_begin_product(tape, &lsi_op_conv2d, inputs,
                              bias != NULL ? 3 : 2))
        return NULL;
    ls_tensor *const operands[] = {lsi_op_operand(tape, x),
                                   lsi_op_operand(tape, weight), bias};
    if (ls_tape_status(tape) != LS_OK || !check_types(tape, operands) ||
        !apply_options(tape, options, &shape) || !check(tape, operands, &shape))
        return NULL;
    assert(shape.stride >= 1);
    shape.dtype = operands[X]->dtype;
    shape.dsrc_dtype = x->dtype;
    return compute(tape, &shape, inputs, operands);
}
