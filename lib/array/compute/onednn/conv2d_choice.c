/* The rules, and the oneDNN descriptions that follow from them. */
#include "array/compute/onednn/conv2d_choice.h"

#include <string.h>

#include "array/compute/onednn/calls.h"
#include "array/compute/onednn/op.h"
#include "array/kernels/kernels.h"
#include "base/error.h"

enum {
    FEW_CHANNELS = 3,            /* read best from a plain image */
    WINOGRAD_MIN_WEIGHTS = 1024, /* c * o that pay for the transforms */
    WINOGRAD_MIN_TILES = 32      /* 4 x 4 outputs that share the weights' */
};
static const size_t winograd_max_scratch = (size_t)128 << 20;

static lsi_layout blocked_layout(void)
{
    return lsi_kernels_get()->blocked;
}

static dnnl_format_tag_t tag_of(lsi_layout layout)
{
    switch (layout) {
    case LSI_LAYOUT_PLAIN:
        return dnnl_nchw;
    case LSI_LAYOUT_CHANNELS_LAST:
        return dnnl_nhwc;
    case LSI_LAYOUT_BLOCKED_8:
        return dnnl_nChw8c;
    case LSI_LAYOUT_BLOCKED_16:
        return dnnl_nChw16c;
    }
    return dnnl_format_tag_undef;
}

int lsi_conv2d_weight_dims(const lsi_conv2d_shape *s, dnnl_dims_t dims)
{
    int n = 0;
    if (s->groups > 1)
        dims[n++] = s->groups;
    dims[n++] = s->o / s->groups;
    dims[n++] = s->c / s->groups;
    dims[n++] = s->kh;
    dims[n++] = s->kw;
    return n;
}

static bool winograd_pays(const lsi_conv2d_shape *s, lsi_conv2d_layouts layouts)
{
    if (layouts.src != LSI_LAYOUT_BLOCKED_16 ||
        layouts.dst != LSI_LAYOUT_BLOCKED_16)
        return false;
    if (s->kh != 3 || s->kw != 3 || s->stride != 1 || s->padding > 1 ||
        s->dilation != 1 || s->groups != 1)
        return false;
    const int64_t rows = (lsi_conv2d_extent(s, s->h, 3) + 3) / 4;
    const int64_t columns = (lsi_conv2d_extent(s, s->w, 3) + 3) / 4;
    return s->c * s->o >= WINOGRAD_MIN_WEIGHTS &&
           s->n * rows * columns >= WINOGRAD_MIN_TILES;
}

/* The three tensors and the bias, as oneDNN describes them. */
typedef struct tensors {
    dnnl_memory_desc_t src, weight, bias, dst;
} tensors;

/*
 * A gradient of weights is f32; the shape gives the type of the source's
 * gradient.
 */
static dnnl_status_t describe_tensors(tensors *t, const lsi_conv2d_shape *s,
                                      lsi_conv2d_pass pass,
                                      lsi_conv2d_layouts layouts)
{
    const dnnl_data_type_t dtype = lsi_onednn_dtype(s->dtype);
    const dnnl_data_type_t src_dtype =
        pass == LSI_CONV2D_DATA ? lsi_onednn_dtype(s->dsrc_dtype) : dtype;
    const dnnl_data_type_t weight_dtype =
        pass == LSI_CONV2D_WEIGHT ? dnnl_f32 : dtype;
    const dnnl_dims_t src = {s->n, s->c, s->h, s->w};
    dnnl_dims_t weight;
    const int weight_ndim = lsi_conv2d_weight_dims(s, weight);
    const dnnl_dims_t bias = {s->o};
    const dnnl_dims_t dst = {s->n, s->o, lsi_conv2d_extent(s, s->h, s->kh),
                             lsi_conv2d_extent(s, s->w, s->kw)};
    dnnl_status_t status = dnnl_memory_desc_init_by_tag(
        &t->src, 4, src, src_dtype, tag_of(layouts.src));
    if (status == dnnl_success)
        status = dnnl_memory_desc_init_by_tag(
            &t->weight, weight_ndim, weight, weight_dtype, dnnl_format_tag_any);
    if (status == dnnl_success)
        status =
            dnnl_memory_desc_init_by_tag(&t->bias, 1, bias, dnnl_f32, dnnl_a);
    if (status == dnnl_success)
        status = dnnl_memory_desc_init_by_tag(&t->dst, 4, dst, dtype,
                                              tag_of(layouts.dst));
    return status;
}

static dnnl_status_t describe_op(dnnl_convolution_desc_t *out,
                                 const lsi_conv2d_shape *s,
                                 lsi_conv2d_pass pass,
                                 dnnl_alg_kind_t algorithm, const tensors *t)
{
    const dnnl_dims_t strides = {s->stride, s->stride};
    const dnnl_dims_t padding = {s->padding, s->padding};
    const dnnl_dims_t dilation = {s->dilation - 1, s->dilation - 1};
    const dnnl_memory_desc_t *bias = s->bias ? &t->bias : NULL;
    switch (pass) {
    case LSI_CONV2D_FORWARD:
        return dnnl_dilated_convolution_forward_desc_init(
            out, dnnl_forward_training, algorithm, &t->src, &t->weight, bias,
            &t->dst, strides, dilation, padding, padding);
    case LSI_CONV2D_DATA:
        return dnnl_dilated_convolution_backward_data_desc_init(
            out, algorithm, &t->src, &t->weight, &t->dst, strides, dilation,
            padding, padding);
    case LSI_CONV2D_WEIGHT:
        return dnnl_dilated_convolution_backward_weights_desc_init(
            out, algorithm, &t->src, &t->weight, bias, &t->dst, strides,
            dilation, padding, padding);
    }
    return dnnl_invalid_arguments;
}

/* One pass with one algorithm; hint is the forward's, NULL for it itself. */
static dnnl_status_t
describe_pass(const lsi_conv2d_shape *s, lsi_conv2d_pass pass,
              lsi_conv2d_layouts layouts, dnnl_alg_kind_t algorithm,
              const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *out)
{
    tensors t;
    dnnl_convolution_desc_t op;
    dnnl_engine_t engine;
    dnnl_primitive_attr_t attr;
    dnnl_status_t status = describe_tensors(&t, s, pass, layouts);
    if (status == dnnl_success)
        status = describe_op(&op, s, pass, algorithm, &t);
    if (status != dnnl_success)
        return status;
    ls_status made = lsi_onednn_engine(&engine);
    if (made == LS_OK)
        made = lsi_onednn_attr(&attr, false,
                               pass == LSI_CONV2D_FORWARD && s->relu);
    if (made != LS_OK)
        return made == LS_ERR_MEMORY ? dnnl_out_of_memory : dnnl_runtime_error;
    status = lsi_dnnl_primitive_desc_create(out, &op, attr, engine, hint);
    dnnl_primitive_attr_destroy(attr);
    return status;
}

static dnnl_status_t describe(const lsi_conv2d_shape *s, lsi_conv2d_pass pass,
                              lsi_conv2d_layouts layouts,
                              dnnl_alg_kind_t algorithm,
                              dnnl_primitive_desc_t *out)
{
    if (pass == LSI_CONV2D_FORWARD)
        return describe_pass(s, pass, layouts, algorithm, NULL, out);
    dnnl_primitive_desc_t hint;
    dnnl_status_t status = describe_pass(s, LSI_CONV2D_FORWARD, layouts,
                                         dnnl_convolution_direct, NULL, &hint);
    if (status != dnnl_success)
        return status;
    status = describe_pass(s, pass, layouts, algorithm, hint, out);
    dnnl_primitive_desc_destroy(hint);
    return status;
}

static size_t scratch_bytes(const_dnnl_primitive_desc_t desc)
{
    return dnnl_memory_desc_get_size(
        dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0));
}

ls_status lsi_conv2d_describe(const lsi_conv2d_shape *shape,
                              lsi_conv2d_pass pass, lsi_conv2d_layouts layouts,
                              dnnl_primitive_desc_t *out)
{
    dnnl_status_t status = dnnl_unimplemented;
    if (winograd_pays(shape, layouts))
        status = describe(shape, pass, layouts, dnnl_convolution_winograd, out);
    if (status == dnnl_out_of_memory)
        return lsi_onednn_check(status, "create a convolution");
    if (status == dnnl_success) {
        if (scratch_bytes(*out) <= winograd_max_scratch)
            return LS_OK;
        dnnl_primitive_desc_destroy(*out);
    }
    return lsi_onednn_check(
        describe(shape, pass, layouts, dnnl_convolution_direct, out),
        "create a convolution");
}

/*
 * Whether oneDNN has special code for the pass, not just plain loops. Fails
 * without memory: a rank must not choose differently from the others.
 */
static ls_status is_fast(const lsi_conv2d_shape *shape, lsi_conv2d_pass pass,
                         lsi_conv2d_layouts layouts, bool *fast)
{
    dnnl_primitive_desc_t desc;
    const char *name = "ref";
    dnnl_status_t status =
        describe(shape, pass, layouts, dnnl_convolution_direct, &desc);
    if (status == dnnl_out_of_memory)
        return lsi_onednn_check(status, "create a convolution");
    *fast = status == dnnl_success;
    if (!*fast)
        return LS_OK;
    status =
        dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &name);
    *fast = status == dnnl_success && strncmp(name, "ref", strlen("ref")) != 0;
    dnnl_primitive_desc_destroy(desc);
    return LS_OK;
}

enum {
    FORWARD = 1 << LSI_CONV2D_FORWARD,
    DATA = 1 << LSI_CONV2D_DATA,
    WEIGHT = 1 << LSI_CONV2D_WEIGHT
};

/* Whether oneDNN has special code for all of these passes. */
static ls_status are_fast(const lsi_conv2d_shape *shape, unsigned passes,
                          lsi_conv2d_layouts layouts, bool *fast)
{
    *fast = true;
    for (int pass = LSI_CONV2D_FORWARD; *fast && pass <= LSI_CONV2D_WEIGHT;
         pass++)
        if ((passes >> pass & 1) != 0)
            LS_TRY(is_fast(shape, (lsi_conv2d_pass)pass, layouts, fast));
    return LS_OK;
}

/* In order of preference; the last always works. */
static int candidates(const lsi_conv2d_shape *s, lsi_conv2d_layouts out[3])
{
    const bool half = s->dtype != LS_F32;
    const lsi_layout blocked =
        half ? lsi_kernels_get()->bf16_layout : blocked_layout();
    const int64_t block = blocked == LSI_LAYOUT_BLOCKED_16 ? 16 : 8;
    int n = 0;
    if (half && (blocked == LSI_LAYOUT_CHANNELS_LAST || s->o % block != 0 ||
                 s->c % block != 0)) {
        out[0] = (lsi_conv2d_layouts){LSI_LAYOUT_CHANNELS_LAST,
                                      LSI_LAYOUT_CHANNELS_LAST};
        return 1;
    }
    if (s->o % block == 0 && s->c % block == 0)
        out[n++] = (lsi_conv2d_layouts){blocked, blocked};
    else if (s->o % block == 0 && s->c <= FEW_CHANNELS)
        out[n++] = (lsi_conv2d_layouts){LSI_LAYOUT_PLAIN, blocked};
    out[n++] = (lsi_conv2d_layouts){LSI_LAYOUT_CHANNELS_LAST,
                                    LSI_LAYOUT_CHANNELS_LAST};
    out[n++] = (lsi_conv2d_layouts){LSI_LAYOUT_PLAIN, LSI_LAYOUT_PLAIN};
    return n;
}

ls_status lsi_conv2d_choose_layouts(const lsi_conv2d_shape *shape,
                                    lsi_conv2d_layouts *out)
{
    dnnl_engine_t engine;
    LS_TRY(lsi_onednn_engine(&engine));
    lsi_conv2d_layouts list[3];
    lsi_conv2d_shape one = *shape;
    one.n = 1; /* batches of all sizes have the same layouts */
    const int n = candidates(&one, list);
    for (int i = 0; i < n - 1; i++) {
        bool fast;
        LS_TRY(are_fast(&one, FORWARD | WEIGHT, list[i], &fast));
        if (fast) {
            *out = list[i];
            return LS_OK;
        }
    }
    *out = list[n - 1];
    return LS_OK;
}

ls_status lsi_conv2d_is_fast(const lsi_conv2d_shape *shape, bool *fast)
{
    lsi_conv2d_shape one = *shape;
    lsi_conv2d_layouts chosen;
    one.n = 1;
    LS_TRY(lsi_conv2d_choose_layouts(&one, &chosen));
    return are_fast(&one, FORWARD | DATA | WEIGHT, chosen, fast);
}

/* Few channels leave blocks nearly empty where the channels are computed. */
ls_status lsi_conv2d_pass_layouts(const lsi_conv2d_shape *shape,
                                  lsi_conv2d_pass pass,
                                  lsi_conv2d_layouts chosen,
                                  lsi_conv2d_layouts *out)
{
    bool fast = shape->c > FEW_CHANNELS;
    *out = chosen;
    if (pass != LSI_CONV2D_DATA || shape->dtype != LS_F32)
        return LS_OK;
    if (fast)
        LS_TRY(are_fast(shape, DATA, chosen, &fast));
    if (!fast)
        *out = (lsi_conv2d_layouts){LSI_LAYOUT_PLAIN, LSI_LAYOUT_PLAIN};
    return LS_OK;
}
