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

/* A pixel's channel; outside of the image it is 0. */
static float pixel(const float *image, int64_t h, int64_t w, int64_t c,
                   const int64_t at[4])
{
    if (at[1] < 0 || at[1] >= h || at[2] < 0 || at[2] >= w)
        return 0;
    return image[((at[0] * h + at[1]) * w + at[2]) * c + at[3]];
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
                add_product(&sum, pixel(c->x, s->h, s->w, s->c, at),
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
                add_product(&sum, pixel(c->dy, c->oh, c->ow, s->o, at),
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
                add_product(&sum, pixel(c->x, s->h, s->w, s->c, at),
                            pixel(c->dy, c->oh, c->ow, s->o, to));
            }
    return result(&sum);
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

static results expected(const conv *c)
{
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
    {3, 64, 6, 5, 32, 3, 3, 1, 1, true, true, F32, 1, 1}, /* blocks of k */
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
    {1, 8, 7, 7, 40, 5, 3, 2, 2, false, true, F32, 1, 4}};

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
    const size_t few[] = {2, 3, 9, 11, 17};
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
    lsi_conv2d_shape s = shapes[2];
    s.n = 0;
    lsi_conv2d_plan *plan;
    float w[17 * 5 * 9], b[5], none[1] = {0};
    for (size_t i = 0; i < TEST_COUNT(w); i++)
        w[i] = 1;
    b[3] = 1;
    assert_ok(lsi_conv2d_plan_get(&s, &plan));
    assert_ok(lsi_conv2d_forward(plan, none, none, w, b));
    assert_ok(lsi_conv2d_backward_data(plan, none, none, w));
    assert_ok(lsi_conv2d_backward_weight(plan, w, b, none, none, true));
    assert_true(w[5] == 1 && b[3] == 1);
    assert_ok(lsi_conv2d_backward_weight(plan, w, b, none, none, false));
    assert_true(w[5] == 0 && b[3] == 0);
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
