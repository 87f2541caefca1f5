/*
 * Convolutions in portable bits against the loops that define the bits. The
 * bounds of their errors are a test of test_conv2d.c.
 */
#include <math.h>

#include "array/compute/threads.h"
#include "base/bits.h"
#include "dense.h"

enum { BLOCK = 256 };

/* A sum of products: a chain for each block, and the blocks in order. */
typedef struct chain {
    float total, block;
    size_t terms;
} chain;

static void add_product(chain *c, float a, float b)
{
    if (c->terms > 0 && c->terms % BLOCK == 0) {
        c->total = c->terms > BLOCK ? c->total + c->block : c->block;
        c->block = 0;
    }
    c->block = fmaf(a, b, c->block);
    c->terms++;
}

static float result(const chain *c)
{
    return c->terms > BLOCK ? c->total + c->block : c->block;
}

typedef struct conv {
    lsi_conv2d_shape s;
    int64_t oh, ow, depth, filters; /* of a group */
    float *x, *w, *b, *dy;          /* images are channels last */
    size_t inputs, outputs, weights;
} conv;

typedef struct images {
    const float *data;
    int64_t h, w, c;
} images;

static images source_of(const conv *c)
{
    return (images){c->x, c->s.h, c->s.w, c->s.c};
}

static images gradient_of(const conv *c)
{
    return (images){c->dy, c->oh, c->ow, c->s.o};
}

/* A pixel's channel; outside of the image it is 0. */
static float pixel(images i, const int64_t at[4])
{
    if (at[1] < 0 || at[1] >= i.h || at[2] < 0 || at[2] >= i.w)
        return 0;
    return i.data[((at[0] * i.h + at[1]) * i.w + at[2]) * i.c + at[3]];
}

static float weight_of(const conv *c, int64_t o, int64_t in_group, int64_t ky,
                       int64_t kx)
{
    return c->w[((o * c->depth + in_group) * c->s.kh + ky) * c->s.kw + kx];
}

static float output(const conv *c, int64_t n, int64_t y, int64_t x, int64_t o)
{
    const lsi_conv2d_shape *s = &c->s;
    chain sum = {0};
    for (int64_t ky = 0; ky < s->kh; ky++)
        for (int64_t kx = 0; kx < s->kw; kx++)
            for (int64_t i = 0; i < c->depth; i++) {
                const int64_t at[4] = {
                    n, y * s->stride + ky * s->dilation - s->padding,
                    x * s->stride + kx * s->dilation - s->padding,
                    o / c->filters * c->depth + i};
                add_product(&sum, pixel(source_of(c), at),
                            weight_of(c, o, i, ky, kx));
            }
    float y_value = result(&sum);
    if (s->bias)
        y_value += c->b[o];
    return s->relu && y_value < 0 ? 0 : y_value;
}

/*
 * The tap with which output pixel `out` reads input pixel `in`, or -1. Outputs
 * before the first and after the last exist, too.
 */
static int64_t tap_between(const lsi_conv2d_shape *s, int64_t in, int64_t out,
                           int64_t k)
{
    const int64_t distance = in + s->padding - out * s->stride;
    if (distance < 0 || distance % s->dilation != 0)
        return -1;
    return distance / s->dilation < k ? distance / s->dilation : -1;
}

static float input_gradient(const conv *c, int64_t n, int64_t y, int64_t x,
                            int64_t channel)
{
    const lsi_conv2d_shape *s = &c->s;
    const int64_t group = channel / c->depth;
    chain sum = {0};
    for (int64_t oy = -s->kh * s->dilation; oy <= y + s->padding; oy++)
        for (int64_t ox = -s->kw * s->dilation; ox <= x + s->padding; ox++) {
            const int64_t ky = tap_between(s, y, oy, s->kh);
            const int64_t kx = ky < 0 ? -1 : tap_between(s, x, ox, s->kw);
            for (int64_t i = 0; kx >= 0 && i < c->filters; i++) {
                const int64_t o = group * c->filters + i;
                const int64_t at[4] = {n, oy, ox, o};
                add_product(&sum, pixel(gradient_of(c), at),
                            weight_of(c, o, channel % c->depth, ky, kx));
            }
        }
    return result(&sum);
}

static float weight_gradient(const conv *c, int64_t o, int64_t i, int64_t ky,
                             int64_t kx)
{
    const lsi_conv2d_shape *s = &c->s;
    chain sum = {0};
    for (int64_t n = 0; n < s->n; n++)
        for (int64_t y = 0; y < c->oh; y++)
            for (int64_t x = 0; x < c->ow; x++) {
                const int64_t to[4] = {n, y, x, o};
                const int64_t at[4] = {
                    n, y * s->stride + ky * s->dilation - s->padding,
                    x * s->stride + kx * s->dilation - s->padding,
                    o / c->filters * c->depth + i};
                add_product(&sum, pixel(source_of(c), at),
                            pixel(gradient_of(c), to));
            }
    return result(&sum);
}

/* ---- Winograd's algorithm ------------------------------------------------ */

/* The layers that the shape of an image gives to it. */
static bool is_winograd(const lsi_conv2d_shape *s)
{
    return s->kh == 3 && s->kw == 3 && s->stride == 1 && s->dilation == 1 &&
           s->groups == 1 && s->padding <= 2 && s->c % 32 == 0 &&
           s->o % 32 == 0;
}

/* The squares of the points +-5/8 and +-3/2, and the constants of the rest. */
#define A  0.625F
#define B  1.5F
#define AA (A * A)
#define BB (B * B)
#define R0 (1 / (AA * BB))
#define RA (1 / (2 * AA * (AA - BB)))
#define RB (1 / (2 * BB * (BB - AA)))

/* One dimension of a transform, of numbers that are `step` apart. */
typedef void (*line_fn)(float *to, size_t to_step, const float *x, size_t step);

static void put_both(float *to, size_t step, float even, float odd)
{
    to[0] = even + odd;
    to[step] = even - odd;
}

static void source_line(float *to, size_t t, const float *x, size_t s)
{
    to[0] = fmaf(AA * BB, x[0], fmaf(-(AA + BB), x[2 * s], x[4 * s]));
    put_both(to + t, t, fmaf(-BB, x[2 * s], x[4 * s]),
             A * fmaf(-BB, x[s], x[3 * s]));
    put_both(to + 3 * t, t, fmaf(-AA, x[2 * s], x[4 * s]),
             B * fmaf(-AA, x[s], x[3 * s]));
    to[5 * t] = fmaf(AA * BB, x[s], fmaf(-(AA + BB), x[3 * s], x[5 * s]));
}

static void filter_line(float *to, size_t t, const float *g, size_t s)
{
    to[0] = R0 * g[0];
    put_both(to + t, t, RA * fmaf(AA, g[2 * s], g[0]), RA * A * g[s]);
    put_both(to + 3 * t, t, RB * fmaf(BB, g[2 * s], g[0]), RB * B * g[s]);
    to[5 * t] = g[2 * s];
}

static void result_line(float *to, size_t t, const float *m, size_t s)
{
    const float even_a = m[s] + m[2 * s], odd_a = A * (m[s] - m[2 * s]);
    const float even_b = m[3 * s] + m[4 * s];
    const float odd_b = B * (m[3 * s] - m[4 * s]);
    to[0] = m[0] + (even_a + even_b);
    to[t] = odd_a + odd_b;
    to[2 * t] = fmaf(AA, even_a, BB * even_b);
    to[3 * t] = fmaf(AA, odd_a, fmaf(BB, odd_b, m[5 * s]));
}

static void gradient_line(float *to, size_t t, const float *y, size_t s)
{
    to[0] = y[0];
    put_both(to + t, t, fmaf(AA, y[2 * s], y[0]), A * fmaf(AA, y[3 * s], y[s]));
    put_both(to + 3 * t, t, fmaf(BB, y[2 * s], y[0]),
             B * fmaf(BB, y[3 * s], y[s]));
    to[5 * t] = y[3 * s];
}

static void taps_line(float *to, size_t t, const float *m, size_t s)
{
    const float even_a = RA * (m[s] + m[2 * s]);
    const float odd_a = RA * (m[s] - m[2 * s]);
    const float even_b = RB * (m[3 * s] + m[4 * s]);
    const float odd_b = RB * (m[3 * s] - m[4 * s]);
    to[0] = fmaf(R0, m[0], even_a + even_b);
    to[t] = fmaf(A, odd_a, B * odd_b);
    to[2 * t] = fmaf(AA, even_a, fmaf(BB, even_b, m[5 * s]));
}

/* Columns, then rows, of `in` x `in` numbers, to `out` x `out`. */
static void transform(float *to, const float *from, size_t out, size_t in,
                      line_fn line)
{
    float half[36];
    for (size_t j = 0; j < in; j++)
        line(half + j, in, from + j, in);
    for (size_t i = 0; i < out; i++)
        line(to + i * out, 1, half + i * in, 1);
}

/* side x side pixels of a channel. */
static void square(float *to, int64_t side, images from, const int64_t at[4])
{
    for (int64_t i = 0; i < side * side; i++)
        to[i] = pixel(from, (int64_t[]){at[0], at[1] + i / side,
                                        at[2] + i % side, at[3]});
}

/* For the gradient of the source, filters are turned round. */
static void filter_points(float *to, const conv *c, int64_t out, int64_t in,
                          bool turned)
{
    float taps[9];
    for (int64_t k = 0; k < 9; k++)
        taps[k] = turned ? weight_of(c, in, out, 2 - k / 3, 2 - k % 3)
                         : weight_of(c, out, in, k / 3, k % 3);
    transform(to, taps, 6, 3, filter_line);
}

/* A pass that makes images (rows, columns, outs). */
typedef struct winograd_images {
    images from;
    float *to;
    int64_t rows, columns, outs, padding;
    bool turned;
} winograd_images;

static void winograd_tile(const conv *c, const winograd_images *g, int64_t n,
                          int64_t y, int64_t x, int64_t out)
{
    float sums[36] = {0}, tile[16];
    for (int64_t in = 0; in < g->from.c; in++) {
        float pixels[36], v[36], u[36];
        const int64_t at[4] = {n, y - g->padding, x - g->padding, in};
        square(pixels, 6, g->from, at);
        transform(v, pixels, 6, 6, source_line);
        filter_points(u, c, out, in, g->turned);
        for (size_t k = 0; k < 36; k++)
            sums[k] = fmaf(v[k], u[k], sums[k]);
    }
    transform(tile, sums, 4, 6, result_line);
    for (int64_t i = 0; i < 16; i++) {
        const int64_t row = y + i / 4, column = x + i % 4;
        float value = tile[i];
        if (row >= g->rows || column >= g->columns)
            continue;
        if (!g->turned && c->s.bias)
            value += c->b[out];
        if (!g->turned && c->s.relu && value < 0)
            value = 0;
        g->to[((n * g->rows + row) * g->columns + column) * g->outs + out] =
            value;
    }
}

static void winograd_pass(const conv *c, const winograd_images *g)
{
    for (int64_t n = 0; n < c->s.n; n++)
        for (int64_t y = 0; y < g->rows; y += 4)
            for (int64_t x = 0; x < g->columns; x += 4)
                for (int64_t out = 0; out < g->outs; out++)
                    winograd_tile(c, g, n, y, x, out);
}

/* A chain for each 128 tiles of the batch, and their sums in order. */
static void winograd_weight(const conv *c, float *to, int64_t o, int64_t in)
{
    const lsi_conv2d_shape *s = &c->s;
    float total[36] = {0}, sums[36] = {0};
    size_t tiles = 0;
    for (int64_t n = 0; n < s->n; n++)
        for (int64_t y = 0; y < c->oh; y += 4)
            for (int64_t x = 0; x < c->ow; x += 4) {
                float pixels[36], v[36], dy[16], z[36];
                if (tiles > 0 && tiles % 128 == 0)
                    for (size_t k = 0; k < 36; k++) {
                        total[k] = tiles > 128 ? total[k] + sums[k] : sums[k];
                        sums[k] = 0;
                    }
                square(pixels, 6, source_of(c),
                       (int64_t[]){n, y - s->padding, x - s->padding, in});
                square(dy, 4, gradient_of(c), (int64_t[]){n, y, x, o});
                transform(v, pixels, 6, 6, source_line);
                transform(z, dy, 6, 4, gradient_line);
                for (size_t k = 0; k < 36; k++)
                    sums[k] = fmaf(v[k], z[k], sums[k]);
                tiles++;
            }
    for (size_t k = 0; k < 36; k++)
        total[k] = tiles > 128 ? total[k] + sums[k] : sums[k];
    transform(to, total, 3, 6, taps_line);
}

/* ---- the passes ---------------------------------------------------------- */

typedef struct results {
    float *y, *dx, *dw;
} results;

static conv make_conv(const lsi_conv2d_shape *s, float *(*make)(size_t n))
{
    conv c = {.s = *s,
              .oh = lsi_conv2d_extent(s, s->h, s->kh),
              .ow = lsi_conv2d_extent(s, s->w, s->kw),
              .depth = s->c / s->groups,
              .filters = s->o / s->groups};
    c.inputs = (size_t)(s->n * s->c * s->h * s->w);
    c.outputs = (size_t)(s->n * s->o * c.oh * c.ow);
    c.weights = (size_t)(s->o * c.depth * s->kh * s->kw);
    c.x = make(c.inputs);
    c.w = make(c.weights);
    c.b = make((size_t)s->o);
    c.dy = make(c.outputs);
    return c;
}

static results expected_of_winograd(const conv *c)
{
    const lsi_conv2d_shape *s = &c->s;
    const results r = {floats(c->outputs), floats(c->inputs),
                       floats(c->weights)};
    winograd_pass(c, &(winograd_images){source_of(c), r.y, c->oh, c->ow, s->o,
                                        s->padding, false});
    winograd_pass(c, &(winograd_images){gradient_of(c), r.dx, s->h, s->w, s->c,
                                        2 - s->padding, true});
    for (int64_t i = 0; i < s->o * s->c; i++)
        winograd_weight(c, r.dw + i * 9, i / s->c, i % s->c);
    return r;
}

static results expected(const conv *c)
{
    if (is_winograd(&c->s))
        return expected_of_winograd(c);
    const lsi_conv2d_shape *s = &c->s;
    const results r = {floats(c->outputs), floats(c->inputs),
                       floats(c->weights)};
    for (int64_t i = 0; i < (int64_t)c->outputs; i++)
        r.y[i] = output(c, i / s->o / c->ow / c->oh, i / s->o / c->ow % c->oh,
                        i / s->o % c->ow, i % s->o);
    for (int64_t i = 0; i < (int64_t)c->inputs; i++)
        r.dx[i] =
            input_gradient(c, i / s->c / s->w / s->h, i / s->c / s->w % s->h,
                           i / s->c % s->w, i % s->c);
    for (int64_t i = 0; i < (int64_t)c->weights; i++)
        r.dw[i] = weight_gradient(c, i / s->kw / s->kh / c->depth,
                                  i / s->kw / s->kh % c->depth,
                                  i / s->kw % s->kh, i % s->kw);
    return r;
}

static void check_threads(const conv *c, const results *want, int threads)
{
    lsi_conv2d_plan *plan;
    float *y = floats(c->outputs), *dx = floats(c->inputs);
    float *dw = floats(c->weights), *twice = floats(c->weights);
    lsi_threads_set(threads);
    assert_ok(lsi_conv2d_plan_get(&c->s, &plan));
    assert_int_equal(lsi_conv2d_src_layout(plan), LSI_LAYOUT_CHANNELS_LAST);
    assert_int_equal(lsi_conv2d_dst_layout(plan), LSI_LAYOUT_CHANNELS_LAST);
    assert_ok(lsi_conv2d_forward(plan, y, c->x, c->w, c->s.bias ? c->b : NULL));
    assert_ok(lsi_conv2d_backward_data(plan, dx, c->dy, c->w));
    assert_ok(lsi_conv2d_backward_weight(plan, dw, NULL, c->x, c->dy, false));
    expect_same(y, want->y, c->outputs, "forward");
    expect_same(dx, want->dx, c->inputs, "backward_data");
    expect_same(dw, want->dw, c->weights, "backward_weight");
    assert_ok(lsi_conv2d_backward_weight(plan, dw, NULL, c->x, c->dy, true));
    for (size_t i = 0; i < c->weights; i++)
        twice[i] = want->dw[i] + want->dw[i];
    expect_same(dw, twice, c->weights, "backward_weight, accumulated");
    lsi_threads_set(1);
}

/* The sum that the kernel column_sum defines, of blocks of 32 rows. */
static void check_bias(const conv *c)
{
    lsi_conv2d_plan *plan;
    const size_t o = (size_t)c->s.o, pixels = c->outputs / o;
    float *dw = floats(c->weights), *db = floats(o), *want = floats(o);
    assert_ok(lsi_conv2d_plan_get(&c->s, &plan));
    assert_ok(lsi_conv2d_backward_weight(plan, dw, db, c->x, c->dy, false));
    for (size_t f = 0; f < o; f++) {
        want[f] = 0;
        for (size_t p = 0; p < pixels; p += 32) {
            float block = 0;
            for (size_t i = p; i < p + 32 && i < pixels; i++)
                block += c->dy[i * o + f];
            want[f] += block;
        }
    }
    expect_same(db, want, o, "gradient of the bias");
}

/* n, c, h, w, o, kh, kw, stride, padding, bias, relu, types, dilation, groups
 */
#define F32 LS_F32, LS_F32
static const lsi_conv2d_shape shapes[] = {
    {1, 1, 1, 1, 1, 1, 1, 1, 0, true, false, F32, 1, 1},
    {3, 3, 19, 17, 33, 7, 7, 2, 3, false, false, F32, 1, 1},
    {2, 17, 9, 7, 5, 3, 3, 1, 1, true, true, F32, 1, 1},
    {3, 60, 6, 5, 32, 3, 3, 1, 1, true, true, F32, 1, 1},   /* blocks of k */
    {1, 32, 4, 4, 32, 3, 3, 1, 1, false, false, F32, 1, 1}, /* Winograd */
    {3, 64, 6, 5, 32, 3, 3, 1, 0, true, true, F32, 1, 1},
    {33, 32, 7, 6, 32, 3, 3, 1, 2, true, true, F32, 1, 1},
    {1, 32, 7, 7, 64, 3, 3, 2, 1, false, true, F32, 1, 1},
    {2, 300, 3, 3, 16, 1, 1, 1, 0, true, false, F32, 1, 1},
    {2, 24, 8, 9, 40, 1, 1, 2, 0, false, false, F32, 1, 1},
    {5, 4, 33, 31, 6, 3, 3, 1, 1, true, false, F32, 1, 1}, /* many pixels */
    {37, 8, 6, 7, 16, 3, 3, 1, 1, true, false, F32, 1, 1},
    {2, 8, 6, 8, 8, 2, 3, 3, 2, true, true, F32, 1, 1},
    {2, 3, 9, 8, 4, 2, 2, 5, 0, false, true, F32, 1, 1}, /* gaps */
    {1, 3, 4, 4, 8, 5, 5, 1, 4, false, true, F32, 1, 1}, /* mostly zeros */
    {2, 5, 11, 10, 7, 3, 3, 1, 2, true, false, F32, 2, 1},
    {2, 5, 13, 12, 7, 3, 3, 2, 2, true, false, F32, 2, 1},
    {1, 5, 13, 15, 7, 3, 4, 2, 3, true, false, F32, 3, 1},
    {1, 4, 15, 16, 3, 3, 3, 4, 1, false, false, F32, 2, 1},
    {2, 12, 9, 8, 10, 3, 3, 1, 1, true, true, F32, 1, 2},
    {2, 9, 8, 9, 9, 3, 3, 2, 1, true, false, F32, 1, 9},
    {1, 8, 7, 7, 40, 5, 3, 2, 2, false, true, F32, 1, 4},
    {5, 600, 17, 15, 9, 1, 1, 2, 0, true, false, F32, 1, 1}, /* groups of 1x1 */
    {2, 20, 8, 11, 10, 1, 1, 3, 0, true, false, F32, 1, 1},
    {2, 20, 8, 11, 10, 1, 1, 2, 0, true, true, F32, 1, 1}};

static float *ordinary(size_t n)
{
    return random_floats(n, -1, 1);
}

static void bits_are_those_of_the_loops(void **state)
{
    (void)state;
    random_seed(3);
    for (size_t i = 0; i < TEST_COUNT(shapes); i++) {
        const conv c = make_conv(&shapes[i], ordinary);
        const results want = expected(&c);
        for (int threads = 1; threads <= 3; threads++)
            check_threads(&c, &want, threads);
        check_bias(&c);
        release_all();
    }
}

/* Zeros around an image are factors, too: of infinite weights they make NaN. */
static void zeros_take_part(void **state)
{
    (void)state;
    random_seed(6);
    const size_t few[] = {2, 3, 5, 12, 14, 20};
    for (size_t i = 0; i < TEST_COUNT(few); i++) {
        const conv c = make_conv(&shapes[few[i]], extreme_floats);
        const results want = expected(&c);
        check_threads(&c, &want, 1);
        release_all();
    }
}

static void an_image_has_its_bits_in_any_batch(void **state)
{
    (void)state;
    random_seed(8);
    for (size_t i = 1; i < TEST_COUNT(shapes); i++) {
        const conv c = make_conv(&shapes[i], ordinary);
        lsi_conv2d_shape one = c.s;
        one.n = 1;
        const size_t in = c.inputs / (size_t)c.s.n;
        const size_t out = c.outputs / (size_t)c.s.n;
        float *y = floats(c.outputs), *dx = floats(c.inputs);
        float *one_y = floats(out), *one_dx = floats(in);
        const float *b = c.s.bias ? c.b : NULL;
        lsi_conv2d_plan *plan;
        assert_ok(lsi_conv2d_plan_get(&c.s, &plan));
        assert_ok(lsi_conv2d_forward(plan, y, c.x, c.w, b));
        assert_ok(lsi_conv2d_backward_data(plan, dx, c.dy, c.w));
        assert_ok(lsi_conv2d_plan_get(&one, &plan));
        for (size_t n = 0; n < (size_t)c.s.n; n++) {
            assert_ok(lsi_conv2d_forward(plan, one_y, c.x + n * in, c.w, b));
            assert_ok(
                lsi_conv2d_backward_data(plan, one_dx, c.dy + n * out, c.w));
            expect_same(one_y, y + n * out, out, "forward of one image");
            expect_same(one_dx, dx + n * in, in, "backward_data of one image");
        }
        release_all();
    }
}

static void no_images(void **state)
{
    (void)state;
    const size_t few[] = {2, 8, 9};
    for (size_t i = 0; i < TEST_COUNT(few); i++) {
        lsi_conv2d_shape s = shapes[few[i]];
        s.n = 0;
        lsi_conv2d_plan *plan;
        float w[16 * 300], b[40], none[1] = {0};
        for (size_t k = 0; k < TEST_COUNT(w); k++)
            w[k] = 1;
        b[3] = 1;
        assert_ok(lsi_conv2d_plan_get(&s, &plan));
        assert_ok(lsi_conv2d_forward(plan, none, none, w, b));
        assert_ok(lsi_conv2d_backward_data(plan, none, none, w));
        assert_ok(lsi_conv2d_backward_weight(plan, w, b, none, none, true));
        assert_true(w[5] == 1 && b[3] == 1);
        assert_ok(lsi_conv2d_backward_weight(plan, w, b, none, none, false));
        assert_true(w[5] == 0 && b[3] == 0);
    }
}

/* Plans of the two kinds of bits are different plans. */
static void plans_are_of_one_kind(void **state)
{
    (void)state;
    lsi_conv2d_plan *portable, *fast;
    assert_ok(lsi_conv2d_plan_get(&shapes[2], &portable));
    assert_ok(ls_set_bits(LS_BITS_FAST));
    assert_ok(lsi_conv2d_plan_get(&shapes[2], &fast));
    assert_ok(ls_set_bits(LS_BITS_PORTABLE));
    assert_ptr_not_equal(portable, fast);
}

static void half_types_are_computed_in_f32(void **state)
{
    (void)state;
    lsi_conv2d_shape s = {4, 64,    32,    32,      64,      3, 3, 1,
                          1, false, false, LS_BF16, LS_BF16, 1, 1};
    lsi_conv2d_plan *plan;
    assert_ok(lsi_conv2d_plan_get(&s, &plan));
    assert_int_equal(lsi_conv2d_dtype(plan), LS_F32);
}

int main(void)
{
    if (level_is_missing())
        return TEST_SKIPPED;
    lsi_threads_set(1);
    assert_ok(ls_set_bits(LS_BITS_PORTABLE));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_those_of_the_loops),
        cmocka_unit_test(zeros_take_part),
        cmocka_unit_test(an_image_has_its_bits_in_any_batch),
        cmocka_unit_test(no_images),
        cmocka_unit_test(plans_are_of_one_kind),
        cmocka_unit_test(half_types_are_computed_in_f32)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
