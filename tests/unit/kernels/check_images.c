/* Pooling and reorders: nothing is rounded, so everything is exact. */
#include <math.h>

#include "array/kernels/layout.h"
#include "harness.h"
#include "testing.h"

/* The place of channel c of pixel p of image n, `pixels` in an image. */
static size_t place(lsi_layout layout, size_t channels, size_t pixels, size_t n,
                    size_t c, size_t p)
{
    const size_t block = (size_t)lsi_layout_block(layout, (int64_t)channels);
    return ((n * (channels / block) + c / block) * pixels + p) * block +
           c % block;
}

typedef struct pool_case {
    lsi_pool2d s;
    size_t oh, ow, inputs, outputs, slabs; /* of the whole tensor */
    float *src;
} pool_case;

/* Few distinct values, so that many windows have ties; some NaN. */
static pool_case make_case(lsi_pool2d s)
{
    pool_case p = {.s = s};
    p.oh = (size_t)(s.h / s.size);
    p.ow = (size_t)(s.w / s.size);
    p.inputs = (size_t)(s.n * s.c * s.h * s.w);
    p.outputs = (size_t)(s.n * s.c) * p.oh * p.ow;
    p.slabs = (size_t)(s.n * s.c / lsi_layout_block(s.src_layout, s.c));
    p.src = floats(p.inputs);
    for (size_t i = 0; i < p.inputs; i++)
        p.src[i] = random_u64() % 20 == 0 ? NAN : (float)(random_u64() % 5);
    return p;
}

static size_t source_place(const pool_case *p, size_t n, size_t c, size_t y,
                           size_t x)
{
    return place(p->s.src_layout, (size_t)p->s.c, (size_t)(p->s.h * p->s.w), n,
                 c, y * (size_t)p->s.w + x);
}

/* The expected output at (n, c, y, x), and its place in the window. */
static float expected_max(const pool_case *p, size_t n, size_t c, size_t y,
                          size_t x, unsigned *where)
{
    const size_t size = (size_t)p->s.size;
    float max = 0;
    for (unsigned i = 0; i < size * size; i++) {
        const float v = p->src[source_place(p, n, c, y * size + i / size,
                                            x * size + i % size)];
        if (i == 0 || v > max || (isnan(v) && !isnan(max))) {
            max = v;
            *where = i;
        }
    }
    return max;
}

/* Calls fn for each output, `at` being its place in dst, `byte` in index. */
typedef void output_fn(const pool_case *p, void *context, size_t at,
                       size_t byte, const size_t nchw[4]);

static void for_outputs(const pool_case *p, output_fn *fn, void *context)
{
    const size_t pixels = p->oh * p->ow, channels = (size_t)p->s.c;
    for (size_t at = 0; at < p->outputs; at++) {
        const size_t c = at / pixels % channels, n = at / pixels / channels;
        const size_t nchw[4] = {n, c, at % pixels / p->ow, at % p->ow};
        fn(p, context, at,
           place(p->s.src_layout, channels, pixels, n, c, at % pixels), nchw);
    }
}

typedef struct pooled {
    const float *dst;
    const uint8_t *index;
    float *grad; /* of the source */
} pooled;

static void expect_output(const pool_case *p, void *context, size_t at,
                          size_t byte, const size_t nchw[4])
{
    const pooled *got = context;
    unsigned where = 0;
    const float want =
        expected_max(p, nchw[0], nchw[1], nchw[2], nchw[3], &where);
    expect_same(&got->dst[at], &want, 1, "max_pool2d_forward");
    assert_int_equal(got->index[byte], where);
}

/* Half of the slabs, then the other half: neither may touch the other's. */
static void check_pool_forward(const lsi_kernels *k, lsi_pool2d s)
{
    const pool_case p = make_case(s);
    float *dst = floats(p.outputs);
    uint8_t *index = guarded(p.outputs, 3);
    const size_t half = p.slabs / 2;
    k->max_pool2d_forward(dst, index, p.src, &s, 0, half);
    float *untouched = copy_floats(dst, p.outputs);
    k->max_pool2d_forward(dst, index, p.src, &s, half, p.slabs);
    const size_t first = p.slabs > 0 ? half * (p.outputs / p.slabs) : 0;
    expect_same(dst, untouched, first, "the other slabs");
    pooled got = {.dst = dst, .index = index};
    for_outputs(&p, expect_output, &got);
    release_all();
}

static void add_gradient(const pool_case *p, void *context, size_t at,
                         size_t byte, const size_t nchw[4])
{
    const pooled *g = context;
    const size_t size = (size_t)p->s.size, where = g->index[byte];
    g->grad[source_place(p, nchw[0], nchw[1], nchw[2] * size + where / size,
                         nchw[3] * size + where % size)] = g->dst[at];
}

static void check_pool_backward(const lsi_kernels *k, lsi_pool2d s)
{
    const pool_case p = make_case(s);
    float *ddst = random_floats(p.outputs, -1, 1);
    uint8_t *index = guarded(p.outputs, 3);
    float *dsrc = floats(p.inputs), *want = floats(p.inputs);
    for (size_t i = 0; i < p.outputs; i++)
        index[i] = (uint8_t)(random_u64() % (unsigned)(s.size * s.size));
    memset(want, 0, p.inputs * sizeof(float));
    pooled g = {.dst = ddst, .index = index, .grad = want};
    for_outputs(&p, add_gradient, &g);
    k->max_pool2d_backward(dsrc, ddst, index, &s, 0, p.slabs / 2);
    k->max_pool2d_backward(dsrc, ddst, index, &s, p.slabs / 2, p.slabs);
    expect_same(dsrc, want, p.inputs, "max_pool2d_backward");
    release_all();
}

static const lsi_pool2d pools[] = {
    {2, 3, 4, 6, 2, LSI_LAYOUT_PLAIN},
    {2, 3, 7, 5, 3, LSI_LAYOUT_PLAIN},
    {1, 16, 9, 7, 2, LSI_LAYOUT_BLOCKED_16},
    {2, 32, 28, 28, 2, LSI_LAYOUT_BLOCKED_16},
    {3, 32, 10, 11, 3, LSI_LAYOUT_BLOCKED_16},
    {2, 8, 12, 8, 2, LSI_LAYOUT_BLOCKED_8},
    {2, 24, 6, 9, 4, LSI_LAYOUT_BLOCKED_8},
    {2, 5, 8, 8, 2, LSI_LAYOUT_CHANNELS_LAST},
    {3, 20, 9, 6, 3, LSI_LAYOUT_CHANNELS_LAST},
    {1, 33, 15, 15, 15, LSI_LAYOUT_CHANNELS_LAST},
    {2, 16, 5, 5, 1, LSI_LAYOUT_BLOCKED_16},
    {0, 16, 5, 5, 2, LSI_LAYOUT_BLOCKED_16},
    {1, 16, 3, 3, 4, LSI_LAYOUT_BLOCKED_16}};

void check_max_pool2d_forward(const lsi_kernels *k)
{
    for (size_t i = 0; i < TEST_COUNT(pools); i++)
        check_pool_forward(k, pools[i]);
}

void check_max_pool2d_backward(const lsi_kernels *k)
{
    for (size_t i = 0; i < TEST_COUNT(pools); i++)
        check_pool_backward(k, pools[i]);
}

static void check_reorder_of(const lsi_kernels *k, lsi_layout to,
                             lsi_layout from, size_t c, size_t pixels)
{
    float *src = random_floats(c * pixels, -1, 1);
    float *dst = floats(c * pixels), *want = floats(c * pixels);
    for (size_t channel = 0; channel < c; channel++)
        for (size_t p = 0; p < pixels; p++)
            want[place(to, c, pixels, 0, channel, p)] =
                src[place(from, c, pixels, 0, channel, p)];
    k->reorder(dst, lsi_layout_block(to, (int64_t)c), src,
               lsi_layout_block(from, (int64_t)c), (int64_t)c, (int64_t)pixels);
    expect_same(dst, want, c * pixels, "reorder");
    release_all();
}

void check_reorder(const lsi_kernels *k)
{
    static const size_t pixels[] = {0, 1, 7, 16, 25, 49, 100};
    static const lsi_layout any[] = {LSI_LAYOUT_PLAIN, LSI_LAYOUT_CHANNELS_LAST,
                                     LSI_LAYOUT_BLOCKED_8,
                                     LSI_LAYOUT_BLOCKED_16};
    for (size_t p = 0; p < TEST_COUNT(pixels); p++) {
        for (size_t to = 0; to < TEST_COUNT(any); to++)
            for (size_t from = 0; from < TEST_COUNT(any); from++)
                check_reorder_of(k, any[to], any[from], 48, pixels[p]);
        check_reorder_of(k, LSI_LAYOUT_PLAIN, LSI_LAYOUT_CHANNELS_LAST, 3,
                         pixels[p]);
        check_reorder_of(k, LSI_LAYOUT_CHANNELS_LAST, LSI_LAYOUT_PLAIN, 21,
                         pixels[p]);
    }
}
