/*
 * Cross-entropy. e^x has a relative error of 4 ulp at most. x - max has one
 * rounding. Its effect on e^(x - max) is |x - max| e^(x - max) / 2^24, at
 * most e^-1 / 2^24 for negative arguments.
 */
#include <math.h>

#include "harness.h"
#include "testing.h"

typedef struct batch {
    size_t rows, cols;
    float *x;
    int64_t *labels;
} batch;

static lsi_softmax_row *rows_of(size_t rows)
{
    return guarded(rows * sizeof(lsi_softmax_row), 4);
}

/* The logits are offset +- range, rounded to f32: that is what counts. */
static batch random_batch(size_t rows, size_t cols, double range, double offset)
{
    batch b = {.rows = rows, .cols = cols};
    b.x = random_floats(rows * cols, offset - range, offset + range);
    b.labels = guarded(rows * sizeof(int64_t), 8);
    for (size_t r = 0; r < rows; r++)
        b.labels[r] = (int64_t)(random_u64() % cols);
    return b;
}

typedef struct softmax {
    double max, sum; /* of e^(x - max) */
} softmax;

static softmax softmax_of(const float *x, size_t cols)
{
    softmax s = {-INFINITY, 0};
    for (size_t c = 0; c < cols; c++)
        s.max = fmax(s.max, x[c]);
    for (size_t c = 0; c < cols; c++)
        s.sum += exp(x[c] - s.max);
    return s;
}

/* Relative, of the sum: 5 roundings an element, then one an addition. */
static double sum_bound(size_t cols)
{
    return ((double)cols + 5) * HALF_ULP;
}

/* The weight of a class in a row with this label. */
static double share_of(size_t c, int64_t label, double smoothing, size_t cols)
{
    const double hit = (int64_t)c == label ? 1.0 - smoothing : 0.0;
    return hit + smoothing / (double)cols;
}

static void check_forward(const lsi_kernels *k, size_t rows, size_t cols,
                          double range, double smoothing)
{
    const batch b = random_batch(rows, cols, range, 0);
    float *loss = floats(rows);
    lsi_softmax_row *saved = rows_of(rows);
    k->cross_entropy(loss, saved, b.x, b.labels, smoothing, rows, cols);
    for (size_t r = 0; r < rows; r++) {
        const softmax want = softmax_of(b.x + r * cols, cols);
        double want_loss = want.max + log(want.sum);
        for (size_t c = 0; c < cols; c++)
            want_loss -=
                share_of(c, b.labels[r], smoothing, cols) * b.x[r * cols + c];
        assert_true(saved[r].max == want.max);
        expect_near(saved[r].scale * want.sum, 1, sum_bound(cols) + HALF_ULP,
                    "scale", r);
        expect_near(loss[r], want_loss,
                    sum_bound(cols) + HALF_ULP * fabs(want_loss), "loss", r);
    }
    release_all();
}

static void check_special_rows(const lsi_kernels *k)
{
    const float none = -INFINITY;
    const float x[] = {1, NAN, 3, none, 0, 0, INFINITY, 0, 0, none, none, none};
    const int64_t labels[] = {0, 1, 1, 0};
    float loss[4], dx[12];
    lsi_softmax_row saved[4];
    k->cross_entropy(loss, saved, x, labels, 0, 4, 3);
    assert_true(isnan(loss[0]) && isnan(saved[0].scale));
    expect_near(loss[1], log(2.0), 8 * HALF_ULP, "row with -inf", 1);
    assert_true(isnan(loss[2]) && isnan(loss[3]));
    k->cross_entropy_backward(dx, x, saved, labels, 0, 1, 4, 3, false);
    for (int i = 0; i < 3; i++)
        assert_true(isnan(dx[i]) && isnan(dx[9 + i]));
    assert_true(isnan(dx[6])); /* at the +inf */
    assert_true(dx[3] == 0.0F);
    expect_near(dx[4], -0.5, 8 * HALF_ULP, "gradient beside -inf", 4);
    expect_near(dx[5], 0.5, 8 * HALF_ULP, "gradient beside -inf", 5);
}

void check_cross_entropy(const lsi_kernels *k)
{
    check_special_rows(k);
    for (size_t l = 1; l < test_length_count; l++) {
        check_forward(k, 3, test_lengths[l], 3, 0);
        check_forward(k, 2, test_lengths[l], 1000, 0);
        check_forward(k, 2, test_lengths[l], 3, 0.125);
    }
    check_forward(k, 33, 100, 10, 0);
}

/*
 * Compared with a softmax in double of the logits as they are. The bound uses
 * how far a logit is from the row's largest, and not how large that is.
 */
static void expect_gradients(const batch *b, double smoothing, float factor,
                             const float *got, const float *old_or_null)
{
    softmax s = {0, 1};
    for (size_t i = 0; i < b->rows * b->cols; i++) {
        const size_t r = i / b->cols;
        if (i % b->cols == 0)
            s = softmax_of(b->x + i, b->cols);
        const double wanted =
            share_of(i % b->cols, b->labels[r], smoothing, b->cols);
        const double d = (double)b->x[i] - s.max;
        const double p = exp(d) / s.sum;
        const double old = old_or_null ? old_or_null[i] : 0.0;
        const double g = factor * (p - wanted);
        const double each = factor * smoothing / (double)b->cols;
        /* x - max, its exponential, the scale, and it times the factor */
        const double roundings = fabs(d) + 5 + 2;
        const double bound =
            fabs(factor * p) * (HALF_ULP * roundings + sum_bound(b->cols)) +
            HALF_ULP * (2 * fabs(each) + fabs(g) + fabs(old + g)) +
            fabs(factor * (double)0x1p-125F);
        expect_near(got[i], old + g, bound, "cross_entropy_backward", i);
    }
}

static void check_backward(const lsi_kernels *k, size_t rows, size_t cols,
                           double range, double offset, double smoothing)
{
    const batch b = random_batch(rows, cols, range, offset);
    const size_t n = rows * cols;
    const float factor = (float)random_between(0.01, 2);
    float *loss = floats(rows), *dx = floats(n);
    lsi_softmax_row *saved = rows_of(rows);
    float *sum = random_floats(n, -1, 1), *in_place = copy_floats(b.x, n);
    const float *old = copy_floats(sum, n);
    k->cross_entropy(loss, saved, b.x, b.labels, smoothing, rows, cols);
    k->cross_entropy_backward(dx, b.x, saved, b.labels, smoothing, factor, rows,
                              cols, false);
    expect_gradients(&b, smoothing, factor, dx, NULL);
    k->cross_entropy_backward(sum, b.x, saved, b.labels, smoothing, factor,
                              rows, cols, true);
    expect_gradients(&b, smoothing, factor, sum, old);
    k->cross_entropy_backward(in_place, in_place, saved, b.labels, smoothing,
                              factor, rows, cols, false);
    expect_gradients(&b, smoothing, factor, in_place, NULL);
    release_all();
}

void check_cross_entropy_backward(const lsi_kernels *k)
{
    static const double offsets[] = {1e2, -1e4, 1e4, 1e6, 1e7, -1e7};
    for (size_t l = 1; l < test_length_count; l++) {
        check_backward(k, 3, test_lengths[l], 3, 0, 0);
        check_backward(k, 2, test_lengths[l], 300, 0, 0);
        check_backward(k, 2, test_lengths[l], 3, 0, 0.125);
        for (size_t i = 0; i < TEST_COUNT(offsets); i++)
            check_backward(k, 2, test_lengths[l], 5, offsets[i],
                           i % 2 == 0 ? 0 : 0.125);
    }
}

/* ---- two classes --------------------------------------------------------- */

/* ln(1 + e^-|x|) is off by 12 half ulps, what is before it by two roundings. */
static void check_bce_n(const lsi_kernels *k, size_t n, double range)
{
    const float *x = random_floats(n, -range, range);
    float *t = random_floats(n, 0, 1), *dx = floats(n);
    double want = 0, bound = 0, got = NAN;
    for (size_t i = 0; i < n; i += 2)
        t[i] = rintf(t[i]);
    for (size_t i = 0; i < n; i++) {
        const double logit = (double)x[i], target = (double)t[i];
        const double rest = log1p(exp(-fabs(logit)));
        want += fmax(logit, 0) - logit * target + rest;
        bound += HALF_ULP * (12 * rest + 3 * fabs(logit));
    }
    k->bce_with_logits(&got, x, t, n);
    expect_near(got, want, bound, "bce_with_logits", n);
    k->bce_with_logits_backward(dx, x, t, 0.75F, n);
    for (size_t i = 0; i < n; i++) {
        const double s = 1 / (1 + exp(-(double)x[i]));
        expect_near((double)dx[i], 0.75 * (s - (double)t[i]),
                    HALF_ULP * (10 * s + 2), "bce_with_logits_backward", i);
    }
    release_all();
}

void check_bce_with_logits(const lsi_kernels *k)
{
    for (size_t l = 0; l < test_length_count; l++) {
        check_bce_n(k, test_lengths[l], 3);
        check_bce_n(k, test_lengths[l], 150);
    }
    /* A small loss is not lost next to 1, nor is a large one. */
    const float x[] = {20, 1000}, t[] = {1, 0};
    double got = 0;
    k->bce_with_logits(&got, x, t, 1);
    expect_near(got, log1p(exp(-20.0)), 1e-5 * exp(-20.0), "a small loss", 0);
    k->bce_with_logits(&got, x + 1, t + 1, 1);
    expect_near(got, 1000, 1e-3, "a large loss", 0);
}

void check_bce_with_logits_backward(const lsi_kernels *k)
{
    check_bce_with_logits(k);
}
