/*
 * Convolutions and their gradients against loops in double.
 *
 * Direct sums of n products are within (n + 4) half ulps of the sum of their
 * absolute values. Winograd's algorithm F(4x4, 3x3) forms larger numbers on
 * the way: in one dimension y = A^T (G g . B^T d). If the roundings are
 * independent, the error is about the root of the sum of squares of
 * the products A G g B d that add up to y. Take random g and d and the
 * points that oneDNN uses: 0, +-5/8, +-3/2 and infinity. The sum is then at
 * most 27 times that of the plain products. This holds for the gradient of the
 * weights, F(3x3, 4x4), as well; in two dimensions it is 27^2. So the error of
 * a sum over many channels or tiles is about 27 sqrt(their number) half ulps
 * of 1. The test allows 12 times that, for the roundings of each of the five
 * steps and for the largest of thousands of outputs.
 *
 * In bf16 the operands are rounded first, and so are products of them that are
 * stored as bf16: to 2^-8 of themselves. F(2x2, 3x3) rounds the sums of up to 4
 * numbers that it forms once more; in one dimension it adds up squares of 5
 * where there are 3, or 4 for 2. The error is about 5 sqrt(channels or tiles)
 * 2^-8 sqrt(2) for numbers of size 1, for random ones a third of that.
 */
#include <math.h>

#include "array/compute/threads.h"
#include "base/bits.h"
#include "base/half.h"
#include "dense.h"

typedef struct conv {
    lsi_conv2d_shape s;
    int64_t oh, ow;
    int64_t in_shape[4], out_shape[4];
    size_t inputs, outputs, weights;
    lsi_conv2d_plan *plan;
    float *x, *w, *b, *dy;     /* plain */
    void *x_in, *w_in, *dy_in; /* in the plan's layouts and type */
} conv;

/* ---- types ------------------------------------------------------------------
 */

/* Rounds x and returns it as an array of the type. */
static void *typed(float *x, size_t n, ls_dtype dtype)
{
    if (dtype == LS_F32)
        return x;
    uint16_t *halves = guarded(2 * n, 2);
    for (size_t i = 0; i < n; i++) {
        halves[i] = lsi_bf16_from_f32(x[i]);
        x[i] = lsi_bf16_to_f32(halves[i]);
    }
    return halves;
}

static const float *widened(const void *x, size_t n, ls_dtype dtype)
{
    if (dtype == LS_F32)
        return x;
    float *wide = floats(n);
    for (size_t i = 0; i < n; i++)
        wide[i] = lsi_bf16_to_f32(((const uint16_t *)x)[i]);
    return wide;
}

static void *room_for(size_t n, ls_dtype dtype)
{
    return dtype == LS_F32 ? (void *)floats(n) : guarded(2 * n, 2);
}

/* The error that storing adds to a value. */
static double stored(double value, ls_dtype dtype)
{
    return dtype == LS_F32 ? 0 : 0x1p-8 * fabs(value);
}

static int64_t extent(int64_t in, int64_t k, const lsi_conv2d_shape *s)
{
    return (in + 2 * s->padding - s->dilation * (k - 1) - 1) / s->stride + 1;
}

/* The array in the plan's layout. */
static void *laid_out(const void *plain, lsi_layout layout, ls_dtype dtype,
                      const int64_t shape[4])
{
    const int64_t n = shape[0] * shape[1] * shape[2] * shape[3];
    void *out = room_for((size_t)n, dtype);
    assert_ok(lsi_reorder(out, layout, plain, LSI_LAYOUT_PLAIN, dtype, shape));
    return out;
}

static conv make_conv(const lsi_conv2d_shape *s)
{
    const int64_t oh = extent(s->h, s->kh, s), ow = extent(s->w, s->kw, s);
    conv c = {.s = *s,
              .oh = oh,
              .ow = ow,
              .in_shape = {s->n, s->c, s->h, s->w},
              .out_shape = {s->n, s->o, oh, ow}};
    c.inputs = (size_t)(s->n * s->c * s->h * s->w);
    c.outputs = (size_t)(s->n * s->o * c.oh * c.ow);
    c.weights = (size_t)(s->o * (s->c / s->groups) * s->kh * s->kw);
    c.x = random_floats(c.inputs, -1, 1);
    c.w = random_floats(c.weights, -1, 1);
    c.b = random_floats((size_t)s->o, -1, 1);
    c.dy = random_floats(c.outputs, -1, 1);
    assert_ok(lsi_conv2d_plan_get(s, &c.plan));
    c.w_in = typed(c.w, c.weights, s->dtype);
    c.x_in = laid_out(typed(c.x, c.inputs, s->dtype),
                      lsi_conv2d_src_layout(c.plan), s->dtype, c.in_shape);
    c.dy_in = laid_out(typed(c.dy, c.outputs, s->dtype),
                       lsi_conv2d_dst_layout(c.plan), s->dtype, c.out_shape);
    return c;
}

/* Winograd's algorithm may be chosen for these only. */
static bool may_be_bf16_winograd(const lsi_conv2d_shape *s)
{
    return s->dtype == LS_BF16 && s->kh == 3 && s->stride == 1 &&
           s->c % 64 == 0 && s->o % 64 == 0 && !s->bias;
}

static bool may_be_winograd(const lsi_conv2d_shape *s)
{
    const int64_t block = lsi_bits_are_portable() ? 32 : 16;
    return s->dtype == LS_F32 && s->kh == 3 && s->kw == 3 && s->stride == 1 &&
           s->c >= block && s->o >= block && s->groups == 1;
}

/*
 * The bound for a sum of `terms` products of numbers in -1..1, `size` the sum
 * of their absolute values. `mixed` are the terms that Winograd adds after
 * its transforms: channels, or tiles of 4x4 for the gradient of the weights.
 */
static double bound_of(const conv *c, double terms, double size, double mixed)
{
    const double direct = (terms + 4) * size;
    const double winograd = 12 * 27 * sqrt(mixed);
    if (may_be_bf16_winograd(&c->s))
        return 5 * sqrt(mixed) * 0x1p-7;
    return HALF_ULP *
           (may_be_winograd(&c->s) ? fmax(direct, winograd) : direct);
}

/* ---- the loops --------------------------------------------------------------
 */

/* Sums up terms as the loops visit them. */
typedef struct sum {
    double value, size;
} sum;

UNSANITIZED static void add_term(sum *s, double a, double b)
{
    s->value += a * b;
    s->size += fabs(a * b);
}

/*
 * For every product there is: an output, an input and a weight. `out` has the
 * sums for the array that is computed.
 */
typedef enum target { OUTPUT, INPUT, WEIGHT } target;

UNSANITIZED static void for_taps(const conv *c, target what, sum *out,
                                 size_t at_out, const int64_t p[4])
{
    const lsi_conv2d_shape *s = &c->s;
    const int64_t depth = s->c / s->groups;
    const int64_t first = p[1] / (s->o / s->groups) * depth;
    for (int64_t ch = 0; ch < depth; ch++)
        for (int64_t k = 0; k < s->kh * s->kw; k++) {
            const int64_t ky = k / s->kw * s->dilation;
            const int64_t kx = k % s->kw * s->dilation;
            const int64_t y = p[2] * s->stride + ky - s->padding;
            const int64_t x = p[3] * s->stride + kx - s->padding;
            if (y < 0 || y >= s->h || x < 0 || x >= s->w)
                continue;
            const size_t at_in =
                (size_t)(((p[0] * s->c + first + ch) * s->h + y) * s->w + x);
            const size_t at_w =
                (size_t)((p[1] * depth + ch) * s->kh * s->kw + k);
            if (what == OUTPUT)
                add_term(&out[at_out], c->x[at_in], c->w[at_w]);
            else if (what == INPUT)
                add_term(&out[at_in], c->dy[at_out], c->w[at_w]);
            else
                add_term(&out[at_w], c->dy[at_out], c->x[at_in]);
        }
}

UNSANITIZED static sum *expected(const conv *c, target what, size_t n)
{
    sum *out = guarded(n * sizeof(sum), 0);
    for (size_t i = 0; i < n; i++)
        out[i] = (sum){0, 0};
    for (size_t at = 0; at < c->outputs; at++) {
        const int64_t i = (int64_t)at;
        const int64_t pixels = c->oh * c->ow;
        const int64_t p[4] = {i / pixels / c->s.o, i / pixels % c->s.o,
                              i % pixels / c->ow, i % c->ow};
        for_taps(c, what, out, at, p);
    }
    return out;
}

/* ---- the passes -------------------------------------------------------------
 */

static void check_forward(const conv *c)
{
    const lsi_conv2d_shape *s = &c->s;
    void *y_in = room_for(c->outputs, s->dtype);
    void *y_out = room_for(c->outputs, s->dtype);
    assert_ok(lsi_conv2d_forward(c->plan, y_in, c->x_in, c->w_in,
                                 s->bias ? c->b : NULL));
    assert_ok(lsi_reorder(y_out, LSI_LAYOUT_PLAIN, y_in,
                          lsi_conv2d_dst_layout(c->plan), s->dtype,
                          c->out_shape));
    const float *y = widened(y_out, c->outputs, s->dtype);
    const sum *want = expected(c, OUTPUT, c->outputs);
    const double terms = (double)(s->c / s->groups * s->kh * s->kw);
    for (size_t i = 0; i < c->outputs; i++) {
        const size_t o = i / (size_t)(c->oh * c->ow) % (size_t)s->o;
        const double before = want[i].value + (s->bias ? c->b[o] : 0.0F);
        const double bound = bound_of(c, terms, want[i].size + 1, (double)s->c);
        expect_near(y[i], s->relu ? fmax(before, 0) : before,
                    bound + stored(before, s->dtype), "forward", i);
    }
}

static void check_backward_data(const conv *c)
{
    const lsi_conv2d_shape *s = &c->s;
    void *dx_in = room_for(c->inputs, s->dsrc_dtype);
    void *dx_out = room_for(c->inputs, s->dsrc_dtype);
    assert_ok(lsi_conv2d_backward_data(c->plan, dx_in, c->dy_in, c->w_in));
    assert_ok(lsi_reorder(dx_out, LSI_LAYOUT_PLAIN, dx_in,
                          lsi_conv2d_src_layout(c->plan), s->dsrc_dtype,
                          c->in_shape));
    const float *dx = widened(dx_out, c->inputs, s->dsrc_dtype);
    const sum *want = expected(c, INPUT, c->inputs);
    const double terms = (double)(s->o * s->kh * s->kw);
    for (size_t i = 0; i < c->inputs; i++)
        expect_near(dx[i], want[i].value,
                    bound_of(c, terms, want[i].size, (double)s->o) +
                        stored(want[i].value, s->dsrc_dtype),
                    "backward_data", i);
}

/* `want` are the sums without `old_dw`. */
static void check_backward_weight(const conv *c, const sum *want,
                                  bool accumulate)
{
    const lsi_conv2d_shape *s = &c->s;
    float *dw = random_floats(c->weights, -1, 1);
    float *db = random_floats((size_t)s->o, -1, 1);
    const float *old_dw = copy_floats(dw, c->weights);
    const float *old_db = copy_floats(db, (size_t)s->o);
    assert_ok(lsi_conv2d_backward_weight(c->plan, dw, s->bias ? db : NULL,
                                         c->x_in, c->dy_in, accumulate));
    const double terms = (double)(s->n * c->oh * c->ow);
    const int64_t side = may_be_bf16_winograd(s) ? 2 : 4;
    const double tiles = (double)(s->n * ((c->oh + side - 1) / side) *
                                  ((c->ow + side - 1) / side));
    for (size_t i = 0; i < c->weights; i++)
        expect_near(dw[i], want[i].value + (accumulate ? old_dw[i] : 0.0F),
                    bound_of(c, terms, want[i].size + 1, tiles),
                    "backward_weight", i);
    for (int64_t o = 0; s->bias && o < s->o; o++) {
        sum total = {accumulate ? old_db[o] : 0.0, 1};
        for (size_t i = 0; i < c->outputs; i++)
            if ((int64_t)i / (c->oh * c->ow) % s->o == o)
                add_term(&total, c->dy[i], 1);
        expect_near(db[o], total.value, HALF_ULP * (terms + 4) * total.size,
                    "backward_weight, bias", (size_t)o);
    }
    if (!s->bias)
        expect_same(db, old_db, (size_t)s->o, "the bias of a layer without");
}

/* n, c, h, w, o, kh, kw, stride, padding, bias, relu, types, dilation, groups
 */
#define F32 LS_F32, LS_F32, 1, 1
static const lsi_conv2d_shape shapes[] = {
    {2, 3, 18, 20, 32, 3, 3, 1, 0, true, true, F32}, /* few channels */
    {2, 1, 9, 7, 16, 3, 3, 1, 1, true, false, F32},
    {1, 3, 11, 13, 5, 3, 3, 2, 1, false, false, F32},
    {2, 32, 12, 12, 32, 3, 3, 1, 0, true, true, F32}, /* Winograd */
    {3, 32, 13, 11, 48, 3, 3, 1, 1, true, false, F32},
    {1, 64, 21, 22, 16, 3, 3, 1, 1, false, false, F32},
    {1, 32, 5, 5, 32, 3, 3, 1, 1, true, true, F32}, /* too small for it */
    {2, 16, 10, 10, 16, 3, 3, 2, 1, true, true, F32},
    {2, 16, 8, 9, 32, 5, 5, 1, 2, true, true, F32},
    {2, 32, 7, 7, 16, 1, 1, 1, 0, true, false, F32},
    {2, 5, 9, 8, 7, 3, 3, 1, 1, true, true, F32}, /* odd channels */
    {1, 20, 8, 8, 24, 3, 2, 1, 0, true, false, F32},
    {2, 24, 6, 6, 8, 3, 3, 1, 1, true, true, F32},
    {1, 2, 5, 5, 3, 5, 5, 1, 0, true, true, F32}, /* one output */
    {1, 1, 1, 1, 1, 1, 1, 1, 0, true, false, F32},
    {1, 3, 4, 4, 8, 3, 3, 3, 2, false, true, F32},
    {2, 16, 9, 10, 32, 3, 3, 1, 2, true, true, LS_F32, LS_F32, 2, 1},
    {2, 6, 9, 7, 4, 3, 2, 2, 1, true, false, LS_F32, LS_F32, 2, 2},
    {2, 32, 8, 9, 64, 3, 3, 1, 1, true, true, LS_F32, LS_F32, 1, 2},
    {1, 64, 7, 7, 64, 3, 3, 2, 1, false, false, LS_F32, LS_F32, 1, 8},
    {2, 32, 9, 9, 32, 3, 3, 1, 1, true, false, LS_F32, LS_F32, 1, 32},
    {2, 7, 8, 9, 7, 5, 5, 2, 2, false, true, LS_F32, LS_F32, 1, 7},
    {1, 5, 6, 6, 15, 3, 3, 1, 1, true, false, LS_F32, LS_F32, 1, 5},
    {2, 64, 12, 21, 64, 3, 3, 1, 1, false, false, F32}, /* Winograd in bf16 */
    {5, 64, 8, 7, 128, 3, 3, 1, 0, false, true, F32},
    {1, 128, 13, 14, 64, 3, 3, 1, 2, false, false, F32},
    {19, 64, 4, 4, 64, 3, 3, 1, 1, false, false, F32},
    {1, 32, 22, 27, 32, 3, 3, 1, 1, true, true, F32}, /* Winograd in f32 */
    {3, 64, 15, 14, 32, 3, 3, 1, 0, true, false, F32},
    {9, 32, 5, 6, 96, 3, 3, 1, 2, false, true, F32},
    {70, 32, 6, 7, 64, 3, 3, 1, 1, true, false, F32}};

static void check_passes(const lsi_conv2d_shape *s)
{
    const conv c = make_conv(s);
    check_forward(&c);
    check_backward_data(&c);
    const sum *want = expected(&c, WEIGHT, c.weights);
    check_backward_weight(&c, want, false);
    check_backward_weight(&c, want, true);
    release_all();
}

static void passes(void **state)
{
    (void)state;
    random_seed(4);
    for (size_t i = 0; i < TEST_COUNT(shapes); i++)
        check_passes(&shapes[i]);
}

/* Where a plan computes in bf16, the gradient of the source in either type. */
static void passes_in_bf16(void **state)
{
    (void)state;
    random_seed(12);
    for (size_t i = 0; i < TEST_COUNT(shapes); i++) {
        lsi_conv2d_shape s = shapes[i];
        s.dtype = LS_BF16;
        s.dsrc_dtype = i % 2 ? LS_F32 : LS_BF16;
        lsi_conv2d_plan *plan;
        assert_ok(lsi_conv2d_plan_get(&s, &plan));
        if (lsi_conv2d_dtype(plan) == LS_BF16)
            check_passes(&s);
    }
}

static void passes_in_portable_bits(void **state)
{
    assert_ok(ls_set_bits(LS_BITS_PORTABLE));
    passes(state);
    assert_ok(ls_set_bits(LS_BITS_FAST));
}

/* The same bits on any number of threads, of an image in any batch. */
static void check_repeats(lsi_conv2d_shape s)
{
    const conv c = make_conv(&s);
    const size_t bytes = ls_dtype_size(s.dtype), images = (size_t)s.n;
    const float *b = s.bias ? c.b : NULL;
    void *y[2], *dx[2], *one = room_for(c.outputs / images, s.dtype);
    float *dw[2], *db[2];
    lsi_conv2d_plan *plan;
    for (int i = 0; i < 2; i++) {
        lsi_threads_set(2 * i + 1);
        y[i] = room_for(c.outputs, s.dtype);
        dx[i] = room_for(c.inputs, s.dtype);
        dw[i] = floats(c.weights);
        db[i] = floats((size_t)s.o);
        assert_ok(lsi_conv2d_plan_get(&s, &plan));
        assert_ok(lsi_conv2d_forward(plan, y[i], c.x_in, c.w_in, b));
        assert_ok(lsi_conv2d_backward_data(plan, dx[i], c.dy_in, c.w_in));
        assert_ok(lsi_conv2d_backward_weight(plan, dw[i], b ? db[i] : NULL,
                                             c.x_in, c.dy_in, false));
    }
    lsi_threads_set(1);
    assert_memory_equal(y[1], y[0], c.outputs * bytes);
    assert_memory_equal(dx[1], dx[0], c.inputs * bytes);
    expect_same(dw[1], dw[0], c.weights, "gradient on 3 threads");
    if (b)
        expect_same(db[1], db[0], (size_t)s.o, "gradient of the bias");
    s.n = 1;
    assert_ok(lsi_conv2d_plan_get(&s, &plan));
    assert_ok(lsi_conv2d_forward(plan, one, c.x_in, c.w_in, b));
    assert_memory_equal(one, y[0], c.outputs / images * bytes);
    release_all();
}

static void winograd_in_bf16_repeats(void **state)
{
    (void)state;
    const lsi_conv2d_shape s = {2, 64,    12,    21,      64,      3, 3, 1,
                                1, false, false, LS_BF16, LS_BF16, 1, 1};
    lsi_conv2d_plan *plan;
    assert_ok(lsi_conv2d_plan_get(&s, &plan));
    if (lsi_conv2d_dtype(plan) == LS_BF16)
        check_repeats(s);
}

static void winograd_in_f32_repeats(void **state)
{
    (void)state;
    check_repeats(
        (lsi_conv2d_shape){3, 32, 22, 27, 64, 3, 3, 1, 1, true, true, F32});
}

/* A plan is for a number of threads; changing it makes another. */
static void passes_use_threads(void **state)
{
    (void)state;
    random_seed(10);
    for (int threads = 2; threads <= 3; threads++) {
        lsi_threads_set(threads);
        check_passes(&shapes[0]);
        check_passes(&shapes[3]);
    }
    lsi_threads_set(1);
}

/* Layouts are a function of the shape, so that ranks and batches agree. */
static void layouts_do_not_depend_on_the_batch(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(shapes); i++) {
        lsi_conv2d_shape s = shapes[i];
        lsi_conv2d_plan *one, *many;
        assert_ok(lsi_conv2d_plan_get(&s, &one));
        s.n = 17;
        assert_ok(lsi_conv2d_plan_get(&s, &many));
        assert_ptr_not_equal(one, many);
        assert_int_equal(lsi_conv2d_src_layout(one),
                         lsi_conv2d_src_layout(many));
        assert_int_equal(lsi_conv2d_dst_layout(one),
                         lsi_conv2d_dst_layout(many));
    }
}

static void plans_are_cached(void **state)
{
    (void)state;
    lsi_conv2d_plan *first, *second;
    assert_ok(lsi_conv2d_plan_get(&shapes[0], &first));
    assert_ok(lsi_conv2d_plan_get(&shapes[0], &second));
    assert_ptr_equal(first, second);
}

/* The same input gives the same bits, also next to other plans' scratch. */
static void passes_repeat(void **state)
{
    (void)state;
    random_seed(5);
    const conv c = make_conv(&shapes[3]);
    float *y = floats(c.outputs), *again = floats(c.outputs);
    float *dw = floats(c.weights), *dw_again = floats(c.weights);
    float *db = floats((size_t)c.s.o);
    for (int run = 0; run < 2; run++) {
        assert_ok(
            lsi_conv2d_forward(c.plan, run ? again : y, c.x_in, c.w, c.b));
        assert_ok(lsi_conv2d_backward_weight(c.plan, run ? dw_again : dw, db,
                                             c.x_in, c.dy_in, false));
    }
    expect_same(again, y, c.outputs, "forward again");
    expect_same(dw_again, dw, c.weights, "backward_weight again");
    release_all();
}

static void no_images(void **state)
{
    (void)state;
    lsi_conv2d_shape s = shapes[0];
    s.n = 0;
    lsi_conv2d_plan *plan;
    assert_ok(lsi_conv2d_plan_get(&s, &plan));
    float dw[32 * 27], db[32], none[1] = {0};
    dw[5] = db[3] = 1;
    assert_ok(lsi_conv2d_forward(plan, none, none, dw, db));
    assert_ok(lsi_conv2d_backward_data(plan, none, none, dw));
    assert_ok(lsi_conv2d_backward_weight(plan, dw, db, none, none, true));
    assert_true(dw[5] == 1 && db[3] == 1);
    assert_ok(lsi_conv2d_backward_weight(plan, dw, db, none, none, false));
    assert_true(dw[5] == 0 && db[3] == 0);
}

static void bad_shapes_are_refused(void **state)
{
    (void)state;
    lsi_conv2d_plan *plan = NULL;
    lsi_conv2d_shape s = shapes[0];
    s.kh = 40;
    assert_error(lsi_conv2d_plan_get(&s, &plan), LS_ERR_SHAPE, "40 x 3");
    s = shapes[0];
    s.stride = 0;
    assert_error(lsi_conv2d_plan_get(&s, &plan), LS_ERR_SHAPE, "stride 0");
    s = shapes[0];
    s.c = 0;
    assert_error(lsi_conv2d_plan_get(&s, &plan), LS_ERR_SHAPE, "0, 18, 20");
    s = shapes[0];
    s.groups = 2;
    assert_error(lsi_conv2d_plan_get(&s, &plan), LS_ERR_SHAPE, "2 groups");
    s = shapes[0];
    s.dilation = 12;
    assert_error(lsi_conv2d_plan_get(&s, &plan), LS_ERR_SHAPE, "dilation 12");
    s = shapes[0];
    s.dtype = LS_I32;
    assert_error(lsi_conv2d_plan_get(&s, &plan), LS_ERR_DTYPE, "dtype i32");
    assert_null(plan);
}

int main(void)
{
    if (level_is_missing())
        return TEST_SKIPPED;
    lsi_threads_set(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes),
        cmocka_unit_test(passes_in_bf16),
        cmocka_unit_test(passes_in_portable_bits),
        cmocka_unit_test(winograd_in_bf16_repeats),
        cmocka_unit_test(winograd_in_f32_repeats),
        cmocka_unit_test(passes_use_threads),
        cmocka_unit_test(layouts_do_not_depend_on_the_batch),
        cmocka_unit_test(plans_are_cached),
        cmocka_unit_test(passes_repeat),
        cmocka_unit_test(no_images),
        cmocka_unit_test(bad_shapes_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
