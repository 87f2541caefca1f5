/*
 * Pooling over windows that overlap and reach over the border, against loops
 * over pixels; the same bits at every level, in every layout.
 */
#include <math.h>

#include "array/kernels/layout.h"
#include "harness.h"
#include "testing.h"

/* n, c, h, w, oh, ow, size, stride, padding */
static const lsi_window2d shapes[] = {
    {2, 16, 7, 6, 4, 3, 3, 2, 1, LSI_LAYOUT_PLAIN},
    {1, 32, 5, 9, 2, 4, 2, 2, 0, LSI_LAYOUT_PLAIN},
    {2, 16, 4, 4, 4, 4, 3, 1, 1, LSI_LAYOUT_PLAIN},
    {1, 16, 1, 1, 1, 1, 3, 1, 1, LSI_LAYOUT_PLAIN},
    {1, 48, 11, 5, 3, 2, 5, 3, 1, LSI_LAYOUT_PLAIN},
    {0, 16, 4, 4, 2, 2, 2, 2, 0, LSI_LAYOUT_PLAIN}};

static const lsi_layout layouts[] = {LSI_LAYOUT_PLAIN, LSI_LAYOUT_CHANNELS_LAST,
                                     LSI_LAYOUT_BLOCKED_8,
                                     LSI_LAYOUT_BLOCKED_16};

static size_t slabs_of(const lsi_window2d *s)
{
    return (size_t)(s->n * s->c / lsi_layout_block(s->layout, s->c));
}

/* Element (slab, y, x, b) of the input is at (slab h + y) w + x, b of block. */
static int64_t input_at(const lsi_window2d *s, int64_t out, int64_t tap)
{
    const int64_t block = lsi_layout_block(s->layout, s->c);
    const int64_t pixel = out / block % (s->oh * s->ow);
    const int64_t slab = out / block / (s->oh * s->ow);
    const int64_t y = pixel / s->ow * s->stride - s->padding + tap / s->size;
    const int64_t x = pixel % s->ow * s->stride - s->padding + tap % s->size;
    if (y < 0 || y >= s->h || x < 0 || x >= s->w)
        return -1;
    return ((slab * s->h + y) * s->w + x) * block + out % block;
}

static size_t inputs_of(const lsi_window2d *s)
{
    return (size_t)(s->n * s->c * s->h * s->w);
}

static size_t outputs_of(const lsi_window2d *s)
{
    return (size_t)(s->n * s->c * s->oh * s->ow);
}

static void check_avg_of(const lsi_kernels *k, const lsi_window2d *s)
{
    const size_t in = inputs_of(s), out = outputs_of(s), slabs = slabs_of(s);
    const int64_t taps = s->size * s->size;
    const float *x = random_floats(in, -2, 2), *dy = random_floats(out, -2, 2);
    float *y = floats(out), *want = floats(out);
    float *dx = floats(in), *want_dx = floats(in);
    double *sum = guarded(in * sizeof(double), 0);
    double *size = guarded(in * sizeof(double), 0);
    k->avg_window2d(y, x, s, 0, slabs);
    reference()->avg_window2d(want, x, s, 0, slabs);
    k->avg_window2d_backward(dx, dy, s, 0, slabs);
    reference()->avg_window2d_backward(want_dx, dy, s, 0, slabs);
    for (size_t i = 0; i < in; i++)
        sum[i] = size[i] = 0;
    for (size_t o = 0; o < out; o++) {
        double total = 0, magnitude = 0;
        for (int64_t t = 0; t < taps; t++) {
            const int64_t at = input_at(s, (int64_t)o, t);
            if (at < 0)
                continue;
            total += x[at];
            magnitude += fabs((double)x[at]);
            sum[at] += (double)dy[o] / (double)taps;
            size[at] += fabs((double)dy[o]) / (double)taps;
        }
        expect_near(y[o], total / (double)taps,
                    (double)(taps + 2) * HALF_ULP * magnitude / (double)taps,
                    "avg_window2d", o);
    }
    for (size_t i = 0; i < in; i++)
        expect_near(dx[i], sum[i], (double)(taps + 2) * HALF_ULP * size[i],
                    "avg_window2d_backward", i);
    expect_same(y, want, out, "avg_window2d");
    expect_same(dx, want_dx, in, "avg_window2d_backward");
    release_all();
}

static void check_max_of(const lsi_kernels *k, const lsi_window2d *s,
                         bool extreme)
{
    const size_t in = inputs_of(s), out = outputs_of(s), slabs = slabs_of(s);
    const float *x = extreme ? extreme_floats(in) : random_floats(in, -2, 2);
    const float *dy = random_floats(out, -2, 2);
    float *y = floats(out), *want = floats(out);
    float *dx = floats(in), *want_dx = floats(in);
    uint8_t *index = guarded(out, 3), *want_index = guarded(out, 1);
    double *sum = guarded(in * sizeof(double), 0);
    k->max_window2d(y, index, x, s, 0, slabs);
    reference()->max_window2d(want, want_index, x, s, 0, slabs);
    k->max_window2d_backward(dx, dy, index, s, 0, slabs);
    reference()->max_window2d_backward(want_dx, dy, want_index, s, 0, slabs);
    for (size_t i = 0; i < in; i++)
        sum[i] = 0;
    for (size_t o = 0; o < out; o++) {
        int64_t first = -1;
        for (int64_t t = 0; t < s->size * s->size; t++) {
            const int64_t at = input_at(s, (int64_t)o, t);
            if (at >= 0 &&
                (first < 0 || x[at] > y[o] || isnan(x[at]) ||
                 x[input_at(s, (int64_t)o, first)] < x[at]) &&
                !(first >= 0 && isnan(x[input_at(s, (int64_t)o, first)])))
                first = t;
        }
        assert_int_equal(index[o], first);
        assert_int_equal(want_index[o], first);
        expect_near(y[o], x[input_at(s, (int64_t)o, first)], 0, "max_window2d",
                    o);
        sum[input_at(s, (int64_t)o, first)] += dy[o];
    }
    for (size_t i = 0; i < in; i++)
        expect_near(dx[i], sum[i], 32 * HALF_ULP * 20, "max_window2d_backward",
                    i);
    expect_same(y, want, out, "max_window2d");
    expect_same(dx, want_dx, in, "max_window2d_backward");
    release_all();
}

/* Each shape in each layout. */
static void for_shapes(const lsi_kernels *k, int kind)
{
    for (size_t i = 0; i < TEST_COUNT(shapes) * TEST_COUNT(layouts); i++) {
        lsi_window2d s = shapes[i / TEST_COUNT(layouts)];
        s.layout = layouts[i % TEST_COUNT(layouts)];
        if (kind == 0)
            check_avg_of(k, &s);
        else
            check_max_of(k, &s, kind == 2);
    }
}

void check_avg_window2d(const lsi_kernels *k)
{
    for_shapes(k, 0);
}

void check_avg_window2d_backward(const lsi_kernels *k)
{
    for_shapes(k, 0);
}

void check_max_window2d(const lsi_kernels *k)
{
    for_shapes(k, 1);
}

void check_max_window2d_backward(const lsi_kernels *k)
{
    for_shapes(k, 2);
}
