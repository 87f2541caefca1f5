/* Convolutions: checks, plans, and the choice of the implementation. */
#include "array/compute/onednn/conv2d.h"
#include "array/compute/dense.h"
#include "array/compute/plan_cache.h"
#include "array/compute/portable_conv.h"
#include "array/compute/threads.h"
#include "array/compute/winograd.h"
#include "array/compute/work.h"
#include "array/kernels/kernels.h"
#include "array/kernels/ref/dense.h"
#include "base/bits.h"
#include "base/error.h"
#include "base/memory.h"

struct lsi_conv2d_plan {
    lsi_conv2d_shape shape;
    lsi_onednn_conv2d *onednn; /* NULL: plain loops, or an empty batch */
    const lsi_winograd_passes *winograd; /* NULL: not by it */
    bool portable;                       /* in portable bits, else in fast */
};

/* No padding: its bytes are compared. */
typedef struct conv2d_key {
    lsi_conv2d_shape shape;
    int64_t threads, portable;
} conv2d_key;

_Static_assert(sizeof(conv2d_key) == 13 * sizeof(int64_t) + 4 * sizeof(int32_t),
               "conv2d_key must have no padding");

static ls_status check(const lsi_conv2d_shape *s)
{
    const bool valid = s->n >= 0 && s->c >= 1 && s->o >= 1 && s->kh >= 1 &&
                       s->kw >= 1 && s->stride >= 1 && s->padding >= 0 &&
                       s->dilation >= 1 && s->groups >= 1;
    if (valid && s->c % s->groups == 0 && s->o % s->groups == 0 &&
        s->h + 2 * s->padding > (s->kh - 1) * s->dilation &&
        s->w + 2 * s->padding > (s->kw - 1) * s->dilation)
        return LS_OK;
    return lsi_fail(
        LS_ERR_SHAPE,
        "invalid convolution: input shape (%lld, %lld, %lld, %lld), %lld "
        "filters of %lld x %lld, stride %lld, padding %lld, dilation %lld, "
        "%lld groups. The filter must fit in the padded image, and the number "
        "of groups must divide the channels and the filters",
        (long long)s->n, (long long)s->c, (long long)s->h, (long long)s->w,
        (long long)s->o, (long long)s->kh, (long long)s->kw,
        (long long)s->stride, (long long)s->padding, (long long)s->dilation,
        (long long)s->groups);
}

static bool is_real(ls_dtype dtype)
{
    return dtype == LS_F32 || dtype == LS_BF16 || dtype == LS_F16;
}

static ls_status check_types(const lsi_conv2d_shape *s)
{
    if (is_real(s->dtype) &&
        (s->dsrc_dtype == s->dtype || s->dsrc_dtype == LS_F32))
        return LS_OK;
    return lsi_fail(LS_ERR_DTYPE,
                    "convolution: the input has dtype %s and its gradient %s. "
                    "The input must be f32, bf16 or f16, and the gradient must "
                    "have the same dtype or f32",
                    ls_dtype_name(s->dtype), ls_dtype_name(s->dsrc_dtype));
}

static ls_status choose_dtype(lsi_conv2d_shape *s, bool portable)
{
    const int64_t channels = lsi_kernels_get()->bf16_channels;
    bool half = !portable && s->n > 0 && s->dtype == LS_BF16 && channels > 0 &&
                s->c >= channels && s->o >= channels;
    if (half)
        LS_TRY(lsi_conv2d_is_fast(s, &half));
    if (!half)
        s->dtype = s->dsrc_dtype = LS_F32;
    return LS_OK;
}

static const lsi_winograd_passes *winograd_of(const lsi_conv2d_plan *plan)
{
    if (plan->portable)
        return lsi_winograd_portable(&plan->shape);
    const lsi_layout src = lsi_conv2d_src_layout(plan);
    const lsi_layout dst = lsi_conv2d_dst_layout(plan);
    return plan->shape.dtype == LS_BF16
               ? lsi_winograd_bf16(&plan->shape, src, dst)
               : lsi_winograd_f32(&plan->shape, src, dst);
}

static ls_status make_plan(const void *key, void **out)
{
    lsi_conv2d_plan *plan;
    const bool portable = ((const conv2d_key *)key)->portable;
    lsi_conv2d_shape shape = ((const conv2d_key *)key)->shape;
    LS_TRY(choose_dtype(&shape, portable));
    LS_TRY(lsi_alloc_zeroed(&plan, sizeof(lsi_conv2d_plan), LS_MEMORY_OTHER,
                            "convolution plan"));
    plan->shape = shape;
    plan->portable = portable;
    const bool plain =
        portable || lsi_kernels_get()->isa == LSI_ISA_REF || plan->shape.n == 0;
    const ls_status status =
        plain ? LS_OK : lsi_onednn_conv2d_new(&plan->onednn, &plan->shape);
    if (status != LS_OK) {
        lsi_free(plan);
        return status;
    }
    plan->winograd = winograd_of(plan);
    *out = plan;
    return LS_OK;
}

static void free_plan(void *argument)
{
    lsi_conv2d_plan *plan = argument;
    if (plan->onednn)
        lsi_onednn_conv2d_free(plan->onednn);
    lsi_free(plan);
}

static const lsi_plan_kind conv2d_kind = {.name = "convolution plan",
                                          .key_bytes = sizeof(conv2d_key),
                                          .make = make_plan,
                                          .destroy = free_plan};

ls_status lsi_conv2d_plan_get(const lsi_conv2d_shape *shape,
                              lsi_conv2d_plan **plan)
{
    conv2d_key key = {*shape, lsi_threads(), lsi_bits_are_portable()};
    key.shape.dilation += shape->dilation == 0;
    key.shape.groups += shape->groups == 0;
    LS_TRY(check(&key.shape));
    LS_TRY(check_types(&key.shape));
    void *found;
    LS_TRY(lsi_plan_cache_get(&conv2d_kind, &key, &found));
    *plan = found;
    return LS_OK;
}

ls_dtype lsi_conv2d_dtype(const lsi_conv2d_plan *plan)
{
    return plan->shape.dtype;
}

/* Layouts in portable bits are the same at every level. */
lsi_layout lsi_conv2d_src_layout(const lsi_conv2d_plan *plan)
{
    if (plan->portable)
        return LSI_LAYOUT_CHANNELS_LAST;
    return plan->onednn ? lsi_onednn_conv2d_layouts(plan->onednn).src
                        : LSI_LAYOUT_PLAIN;
}

lsi_layout lsi_conv2d_dst_layout(const lsi_conv2d_plan *plan)
{
    if (plan->portable)
        return LSI_LAYOUT_CHANNELS_LAST;
    return plan->onednn ? lsi_onednn_conv2d_layouts(plan->onednn).dst
                        : LSI_LAYOUT_PLAIN;
}

/* The name of a kernel's span, by the type of its products. */
static const char *span_name(const lsi_conv2d_plan *plan, const char *f32,
                             const char *bf16)
{
    return plan->shape.dtype == LS_BF16 ? bf16 : f32;
}

ls_status lsi_conv2d_forward(lsi_conv2d_plan *plan, void *dst, const void *src,
                             const void *weight, const float *bias_or_null)
{
    LSI_SPAN(KERNEL, span_name(plan, "conv2d", "conv2d_bf16"),
             lsi_work_conv2d_bytes(&plan->shape),
             lsi_work_conv2d(&plan->shape));
    if (plan->winograd)
        return plan->winograd->forward(&plan->shape, dst, src, weight,
                                       bias_or_null);
    if (plan->portable)
        return lsi_portable_conv2d_forward(&plan->shape, dst, src, weight,
                                           bias_or_null);
    if (plan->onednn)
        return lsi_onednn_conv2d_forward(plan->onednn, dst, src, weight,
                                         bias_or_null);
    lsi_ref_conv2d_forward(&plan->shape, dst, src, weight, bias_or_null);
    return LS_OK;
}

ls_status lsi_conv2d_backward_data(lsi_conv2d_plan *plan, void *dsrc,
                                   const void *ddst, const void *weight)
{
    LSI_SPAN(
        KERNEL,
        span_name(plan, "conv2d_backward_data", "conv2d_backward_data_bf16"),
        lsi_work_conv2d_bytes(&plan->shape), lsi_work_conv2d(&plan->shape));
    if (plan->winograd)
        return plan->winograd->backward_data(&plan->shape, dsrc, ddst, weight);
    if (plan->portable)
        return lsi_portable_conv2d_backward_data(&plan->shape, dsrc, ddst,
                                                 weight);
    if (plan->onednn)
        return lsi_onednn_conv2d_backward_data(plan->onednn, dsrc, ddst,
                                               weight);
    lsi_ref_conv2d_backward_data(&plan->shape, dsrc, ddst, weight);
    return LS_OK;
}

ls_status lsi_conv2d_backward_weight(lsi_conv2d_plan *plan, float *dweight,
                                     float *dbias_or_null, const void *src,
                                     const void *ddst, bool accumulate)
{
    LSI_SPAN(KERNEL,
             span_name(plan, "conv2d_backward_weight",
                       "conv2d_backward_weight_bf16"),
             lsi_work_conv2d_bytes(&plan->shape),
             lsi_work_conv2d(&plan->shape));
    if (plan->winograd)
        return plan->winograd->backward_weight(
            &plan->shape, dweight, dbias_or_null, src, ddst, accumulate);
    if (plan->portable)
        return lsi_portable_conv2d_backward_weight(
            &plan->shape, dweight, dbias_or_null, src, ddst, accumulate);
    if (plan->onednn)
        return lsi_onednn_conv2d_backward_weight(
            plan->onednn, dweight, dbias_or_null, src, ddst, accumulate);
    lsi_ref_conv2d_backward_weight(&plan->shape, dweight, dbias_or_null, src,
                                   ddst, accumulate);
    return LS_OK;
}
