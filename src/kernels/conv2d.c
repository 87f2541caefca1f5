/* Convolutions: checks, plans, and the choice of who computes. */
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "kernels/kernels.h"
#include "kernels/plan_cache.h"
#include "kernels/ref/dense.h"

struct lsi_conv2d_plan {
    lsi_conv2d shape;
};

static ls_status check(const lsi_conv2d *s)
{
    const bool valid = s->n >= 0 && s->c >= 1 && s->o >= 1 && s->kh >= 1 &&
                       s->kw >= 1 && s->stride >= 1 && s->padding >= 0;
    if (!valid || s->h + 2 * s->padding < s->kh ||
        s->w + 2 * s->padding < s->kw)
        return lsi_fail(LS_ERR_SHAPE,
                        "convolution of (%lld, %lld, %lld, %lld) with %lld "
                        "filters of %lld x %lld, stride %lld, padding %lld: "
                        "the padded image must hold the filter",
                        (long long)s->n, (long long)s->c, (long long)s->h,
                        (long long)s->w, (long long)s->o, (long long)s->kh,
                        (long long)s->kw, (long long)s->stride,
                        (long long)s->padding);
    return LS_OK;
}

static ls_status make_plan(const void *key, void **plan)
{
    void *block;
    LS_TRY(lsi_alloc(&block, sizeof(lsi_conv2d_plan), LS_MEMORY_OTHER,
                     "convolution plan"));
    lsi_conv2d_plan *made = block;
    memcpy(&made->shape, key, sizeof(made->shape));
    *plan = made;
    return LS_OK;
}

static const lsi_plan_kind conv2d_kind = {.name = "convolution plan",
                                          .key_bytes = sizeof(lsi_conv2d),
                                          .make = make_plan,
                                          .destroy = lsi_free};

ls_status lsi_conv2d_plan_get(const lsi_conv2d *shape, lsi_conv2d_plan **plan)
{
    LS_TRY(check(shape));
    lsi_conv2d key; /* the padding between fields is part of the key */
    memset(&key, 0, sizeof(key));
    key.n = shape->n;
    key.c = shape->c;
    key.h = shape->h;
    key.w = shape->w;
    key.o = shape->o;
    key.kh = shape->kh;
    key.kw = shape->kw;
    key.stride = shape->stride;
    key.padding = shape->padding;
    key.bias = shape->bias;
    key.relu = shape->relu;
    void *found;
    LS_TRY(lsi_plan_cache_get(&conv2d_kind, &key, &found));
    *plan = found;
    return LS_OK;
}

lsi_layout lsi_conv2d_src_layout(const lsi_conv2d_plan *plan)
{
    (void)plan;
    return LSI_LAYOUT_PLAIN;
}

lsi_layout lsi_conv2d_dst_layout(const lsi_conv2d_plan *plan)
{
    (void)plan;
    return LSI_LAYOUT_PLAIN;
}

ls_status lsi_conv2d_forward(lsi_conv2d_plan *plan, float *dst,
                             const float *src, const float *weight,
                             const float *bias_or_null)
{
    lsi_ref_conv2d_forward(&plan->shape, dst, src, weight, bias_or_null);
    return LS_OK;
}

ls_status lsi_conv2d_backward_data(lsi_conv2d_plan *plan, float *dsrc,
                                   const float *ddst, const float *weight)
{
    lsi_ref_conv2d_backward_data(&plan->shape, dsrc, ddst, weight);
    return LS_OK;
}

ls_status lsi_conv2d_backward_weight(lsi_conv2d_plan *plan, float *dweight,
                                     float *dbias_or_null, const float *src,
                                     const float *ddst, bool accumulate)
{
    lsi_ref_conv2d_backward_weight(&plan->shape, dweight, dbias_or_null, src,
                                   ddst, accumulate);
    return LS_OK;
}
