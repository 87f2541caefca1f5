/*
 * Convolution and its gradients on plain tensors. All three walk over the
 * filter's taps outside and over the pixels inside; planes meet those of their
 * group.
 */
#include "array/kernels/ref/dense.h"

/* Extents, and one place (ky, kx) in the filter. */
typedef struct tap {
    int64_t h, w, oh, ow, stride;
    int64_t y_shift, x_shift; /* input row = output row * stride + */
    int64_t y_begin, y_end, x_begin, x_end; /* outputs whose input exists */
} tap;

/* The outputs o with 0 <= o * stride + shift < in. */
static void valid_outputs(int64_t *begin, int64_t *end, int64_t shift,
                          int64_t stride, int64_t in, int64_t out)
{
    *begin = shift < 0 ? (-shift + stride - 1) / stride : 0;
    *end = in > shift ? (in - 1 - shift) / stride + 1 : 0;
    if (*end > out)
        *end = out;
}

static tap tap_at(const lsi_conv2d_shape *s, int64_t ky, int64_t kx)
{
    tap t = {.h = s->h,
             .w = s->w,
             .oh = lsi_conv2d_extent(s, s->h, s->kh),
             .ow = lsi_conv2d_extent(s, s->w, s->kw),
             .stride = s->stride,
             .y_shift = ky * s->dilation - s->padding,
             .x_shift = kx * s->dilation - s->padding};
    valid_outputs(&t.y_begin, &t.y_end, t.y_shift, t.stride, t.h, t.oh);
    valid_outputs(&t.x_begin, &t.x_end, t.x_shift, t.stride, t.w, t.ow);
    return t;
}

static void forward_tap(const tap *t, float *dst, const float *src,
                        float weight)
{
    for (int64_t y = t->y_begin; y < t->y_end; y++) {
        float *out = dst + y * t->ow;
        const float *in = src + (y * t->stride + t->y_shift) * t->w;
        for (int64_t x = t->x_begin; x < t->x_end; x++)
            out[x] += weight * in[x * t->stride + t->x_shift];
    }
}

static void data_tap(const tap *t, float *dsrc, const float *ddst, float weight)
{
    for (int64_t y = t->y_begin; y < t->y_end; y++) {
        const float *out = ddst + y * t->ow;
        float *in = dsrc + (y * t->stride + t->y_shift) * t->w;
        for (int64_t x = t->x_begin; x < t->x_end; x++)
            in[x * t->stride + t->x_shift] += weight * out[x];
    }
}

static double weight_tap(const tap *t, const float *src, const float *ddst)
{
    double total = 0.0;
    for (int64_t y = t->y_begin; y < t->y_end; y++) {
        const float *out = ddst + y * t->ow;
        const float *in = src + (y * t->stride + t->y_shift) * t->w;
        for (int64_t x = t->x_begin; x < t->x_end; x++)
            total += (double)in[x * t->stride + t->x_shift] * out[x];
    }
    return total;
}

/* All taps between one input plane and one output plane, forward or back. */
static void planes(const lsi_conv2d_shape *s, const float *weight, float *dst,
                   const float *src, float *dsrc, const float *ddst)
{
    for (int64_t ky = 0; ky < s->kh; ky++)
        for (int64_t kx = 0; kx < s->kw; kx++) {
            const tap t = tap_at(s, ky, kx);
            if (dst)
                forward_tap(&t, dst, src, weight[ky * s->kw + kx]);
            else
                data_tap(&t, dsrc, ddst, weight[ky * s->kw + kx]);
        }
}

void lsi_ref_conv2d_forward(const lsi_conv2d_shape *s, float *dst,
                            const float *src, const float *weight,
                            const float *bias_or_null)
{
    const int64_t in = s->h * s->w;
    const int64_t out =
        lsi_conv2d_extent(s, s->h, s->kh) * lsi_conv2d_extent(s, s->w, s->kw);
    const int64_t taps = s->kh * s->kw, depth = s->c / s->groups;
    for (int64_t n = 0; n < s->n; n++)
        for (int64_t o = 0; o < s->o; o++) {
            const int64_t first = o / (s->o / s->groups) * depth;
            float *plane = dst + (n * s->o + o) * out;
            for (int64_t i = 0; i < out; i++)
                plane[i] = bias_or_null ? bias_or_null[o] : 0.0F;
            for (int64_t c = 0; c < depth; c++)
                planes(s, weight + (o * depth + c) * taps, plane,
                       src + (n * s->c + first + c) * in, NULL, NULL);
            for (int64_t i = 0; s->relu && i < out; i++)
                plane[i] = plane[i] < 0.0F ? 0.0F : plane[i];
        }
}

void lsi_ref_conv2d_backward_data(const lsi_conv2d_shape *s, float *dsrc,
                                  const float *ddst, const float *weight)
{
    const int64_t in = s->h * s->w;
    const int64_t out =
        lsi_conv2d_extent(s, s->h, s->kh) * lsi_conv2d_extent(s, s->w, s->kw);
    const int64_t taps = s->kh * s->kw;
    const int64_t depth = s->c / s->groups, filters = s->o / s->groups;
    for (int64_t n = 0; n < s->n; n++)
        for (int64_t c = 0; c < s->c; c++) {
            const int64_t first = c / depth * filters;
            float *plane = dsrc + (n * s->c + c) * in;
            for (int64_t i = 0; i < in; i++)
                plane[i] = 0.0F;
            for (int64_t o = first; o < first + filters; o++)
                planes(s, weight + (o * depth + c % depth) * taps, NULL, NULL,
                       plane, ddst + (n * s->o + o) * out);
        }
}

static double weight_gradient(const lsi_conv2d_shape *s, const tap *t,
                              const float *src, const float *ddst)
{
    double total = 0.0;
    for (int64_t n = 0; n < s->n; n++)
        total += weight_tap(t, src + n * s->c * t->h * t->w,
                            ddst + n * s->o * t->oh * t->ow);
    return total;
}

static double bias_gradient(const lsi_conv2d_shape *s, const float *ddst,
                            int64_t out)
{
    double total = 0.0;
    for (int64_t n = 0; n < s->n; n++)
        for (int64_t i = 0; i < out; i++)
            total += ddst[n * s->o * out + i];
    return total;
}

static void put(float *slot, double value, bool accumulate)
{
    *slot = accumulate ? *slot + (float)value : (float)value;
}

void lsi_ref_conv2d_backward_weight(const lsi_conv2d_shape *s, float *dweight,
                                    float *dbias_or_null, const float *src,
                                    const float *ddst, bool accumulate)
{
    const int64_t out =
        lsi_conv2d_extent(s, s->h, s->kh) * lsi_conv2d_extent(s, s->w, s->kw);
    const int64_t filter = s->kh * s->kw, depth = s->c / s->groups;
    for (int64_t i = 0; i < s->o * depth * filter; i++) {
        const int64_t o = i / (depth * filter);
        const int64_t c = o / (s->o / s->groups) * depth + i / filter % depth;
        const tap t = tap_at(s, i % filter / s->kw, i % s->kw);
        put(dweight + i,
            weight_gradient(s, &t, src + c * s->h * s->w, ddst + o * out),
            accumulate);
    }
    for (int64_t o = 0; dbias_or_null && o < s->o; o++)
        put(dbias_or_null + o, bias_gradient(s, ddst + o * out, out),
            accumulate);
}
