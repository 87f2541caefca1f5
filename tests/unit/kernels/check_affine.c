/*
 * Columns that are shifted and scaled, and the gradients of that, against loops
 * in double; the same bits at every level.
 */
#include <math.h>

#include "base/half.h"
#include "harness.h"
#include "testing.h"

typedef struct extents {
    size_t rows, cols;
} extents;

static const extents sizes[] = {{0, 5},   {1, 1},   {2, 3},    {7, 17},
                                {31, 33}, {32, 64}, {33, 5},   {64, 65},
                                {5, 128}, {4, 200}, {100, 64}, {1000, 9}};

/* The part of the sum of |terms| that a sum over rows may be off. */
static double sum_error(size_t rows)
{
    return (LSI_COLUMN_BLOCK + (double)rows / LSI_COLUMN_BLOCK + 1) * HALF_ULP;
}

typedef struct vectors {
    float *mean, *scale, *bias, *p, *q;
} vectors;

static vectors random_vectors(size_t cols)
{
    return (vectors){.mean = random_floats(cols, -1, 1),
                     .scale = random_floats(cols, -2, 2),
                     .bias = random_floats(cols, -2, 2),
                     .p = random_floats(cols, -1, 1),
                     .q = random_floats(cols, -1, 1)};
}

static void check_affine_of(const lsi_kernels *k, extents e, bool add,
                            bool relu)
{
    const size_t n = e.rows * e.cols;
    const vectors v = random_vectors(e.cols);
    float *x = random_floats(n, -2, 2), *y = floats(n), *want = floats(n);
    const float *r = add ? random_floats(n, -2, 2) : NULL;
    k->affine_columns(y, x, r, v.mean, v.scale, v.bias, e.rows, e.cols, relu,
                      false);
    for (size_t i = 0; i < n; i++) {
        const size_t c = i % e.cols;
        const double scaled = ((double)x[i] - v.mean[c]) * v.scale[c];
        const double sum = scaled + v.bias[c] + (add ? r[i] : 0.0);
        expect_near(y[i], relu ? fmax(sum, 0) : sum,
                    HALF_ULP *
                        (fabs(scaled) + fabs(scaled + v.bias[c]) + fabs(sum)) *
                        1.001,
                    "affine_columns", i);
    }
    reference()->affine_columns(want, x, r, v.mean, v.scale, v.bias, e.rows,
                                e.cols, relu, false);
    expect_same(y, want, n, "affine_columns");
    k->affine_columns(x, x, r, v.mean, v.scale, v.bias, e.rows, e.cols, relu,
                      false);
    expect_same(x, want, n, "affine_columns in place");
    release_all();
}

void check_affine_columns(const lsi_kernels *k)
{
    for (size_t i = 0; i < TEST_COUNT(sizes); i++)
        for (int kind = 0; kind < 4; kind++)
            check_affine_of(k, sizes[i], kind & 1, kind & 2);
}

/* kind: 0 no gate, 1 by y, 2 by x; write: dz, too. */
static void check_sums_of(const lsi_kernels *k, extents e, int kind, bool write)
{
    const size_t n = e.rows * e.cols;
    const vectors v = random_vectors(e.cols);
    const float *x = random_floats(n, -2, 2);
    float *dy = random_floats(n, -2, 2), *dz = floats(n), *want_dz = floats(n);
    const float *y = kind == 1 ? random_floats(n, -1, 1) : NULL;
    const float *scale = kind == 2 ? v.scale : NULL;
    float *sum = floats(e.cols), *dot = floats(e.cols);
    float *want_sum = floats(e.cols), *want_dot = floats(e.cols);
    k->affine_columns_sums(sum, dot, write ? dz : NULL, dy, x, y, v.mean, scale,
                           v.bias, e.rows, e.cols, false);
    reference()->affine_columns_sums(want_sum, want_dot, want_dz, dy, x, y,
                                     v.mean, scale, v.bias, e.rows, e.cols,
                                     false);
    for (size_t c = 0; c < e.cols; c++) {
        double total = 0, size = 0, total_d = 0, size_d = 0;
        for (size_t i = c; i < n; i += e.cols) {
            const double d = (double)x[i] - v.mean[c];
            const bool open = kind == 0 || (kind == 1 && y[i] > 0) ||
                              (kind == 2 && fmaf(x[i] - v.mean[c], v.scale[c],
                                                 v.bias[c]) > 0);
            const double g = open ? dy[i] : 0.0;
            assert_true((double)want_dz[i] == g);
            total += g;
            size += fabs(g);
            total_d += g * d;
            size_d += fabs(g * d);
        }
        expect_near(sum[c], total, sum_error(e.rows) * size, "sum_dz", c);
        expect_near(dot[c], total_d, (sum_error(e.rows) + HALF_ULP) * size_d,
                    "sum_dz_d", c);
    }
    expect_same(sum, want_sum, e.cols, "sum_dz");
    expect_same(dot, want_dot, e.cols, "sum_dz_d");
    if (write) {
        expect_same(dz, want_dz, n, "dz");
        k->affine_columns_sums(sum, dot, dy, dy, x, y, v.mean, scale, v.bias,
                               e.rows, e.cols, false);
        expect_same(dy, want_dz, n, "dz in place of dy");
    }
    release_all();
}

void check_affine_columns_sums(const lsi_kernels *k)
{
    for (size_t i = 0; i < TEST_COUNT(sizes); i++)
        for (int kind = 0; kind < 6; kind++)
            check_sums_of(k, sizes[i], kind % 3, kind >= 3);
}

static void check_dx_of(const lsi_kernels *k, extents e, bool gated)
{
    const size_t n = e.rows * e.cols;
    const vectors v = random_vectors(e.cols);
    const float *x = random_floats(n, -2, 2), *bias = gated ? v.bias : NULL;
    float *dy = random_floats(n, -2, 2), *dx = floats(n), *want = floats(n);
    k->affine_columns_dx(dx, dy, x, v.mean, v.scale, bias, v.p, v.q, e.rows,
                         e.cols, false);
    for (size_t i = 0; i < n; i++) {
        const size_t c = i % e.cols;
        const bool open =
            !gated || fmaf(x[i] - v.mean[c], v.scale[c], v.bias[c]) > 0;
        const double d = ((double)x[i] - v.mean[c]) * v.p[c];
        const double g = open ? (double)v.scale[c] * dy[i] : 0;
        const double size = 2 * fabs(d) + fabs(d + v.q[c]);
        expect_near(dx[i], g + d + v.q[c],
                    HALF_ULP * 1.001 * (size + fabs(g + d + v.q[c])),
                    "affine_columns_dx", i);
    }
    reference()->affine_columns_dx(want, dy, x, v.mean, v.scale, bias, v.p, v.q,
                                   e.rows, e.cols, false);
    expect_same(dx, want, n, "affine_columns_dx");
    k->affine_columns_dx(dy, dy, x, v.mean, v.scale, bias, v.p, v.q, e.rows,
                         e.cols, false);
    expect_same(dy, want, n, "affine_columns_dx in place");
    release_all();
}

/* ---- bf16: what f32 gives for the same numbers, rounded once ------------- */

/* Rounds x, and returns it in bf16. */
static uint16_t *halved(float *x, size_t n)
{
    uint16_t *out = guarded(2 * n, 2);
    for (size_t i = 0; i < n; i++) {
        out[i] = lsi_bf16_from_f32(x[i]);
        x[i] = lsi_bf16_to_f32(out[i]);
    }
    return out;
}

static void expect_rounded(const uint16_t *got, const float *want, size_t n,
                           const char *what)
{
    for (size_t i = 0; i < n; i++)
        if (got[i] != lsi_bf16_from_f32(want[i]))
            fail_msg("%s in bf16 [%zu]", what, i);
}

static void check_half_of(const lsi_kernels *k, extents e, int kind)
{
    const size_t n = e.rows * e.cols;
    const vectors v = random_vectors(e.cols);
    const bool by_y = kind == 1, by_x = kind == 2;
    float *x = random_floats(n, -2, 2), *r = random_floats(n, -2, 2);
    float *want = floats(n), *sum = floats(e.cols), *dot = floats(e.cols);
    float *want_sum = floats(e.cols), *want_dot = floats(e.cols);
    const uint16_t *hx = halved(x, n), *hr = halved(r, n);
    uint16_t *y = guarded(2 * n, 2);
    k->affine_columns(y, hx, by_y ? hr : NULL, v.mean, v.scale, v.bias, e.rows,
                      e.cols, by_x, true);
    reference()->affine_columns(want, x, by_y ? r : NULL, v.mean, v.scale,
                                v.bias, e.rows, e.cols, by_x, false);
    expect_rounded(y, want, n, "affine_columns");
    k->affine_columns_sums(sum, dot, y, hr, hx, by_y ? hx : NULL, v.mean,
                           by_x ? v.scale : NULL, v.bias, e.rows, e.cols, true);
    reference()->affine_columns_sums(
        want_sum, want_dot, want, r, x, by_y ? x : NULL, v.mean,
        by_x ? v.scale : NULL, v.bias, e.rows, e.cols, false);
    expect_rounded(y, want, n, "dz");
    expect_same(sum, want_sum, e.cols, "sum_dz of bf16");
    expect_same(dot, want_dot, e.cols, "sum_dz_d of bf16");
    k->affine_columns_dx(y, hr, hx, v.mean, v.scale, by_x ? v.bias : NULL, v.p,
                         v.q, e.rows, e.cols, true);
    reference()->affine_columns_dx(want, r, x, v.mean, v.scale,
                                   by_x ? v.bias : NULL, v.p, v.q, e.rows,
                                   e.cols, false);
    expect_rounded(y, want, n, "affine_columns_dx");
    release_all();
}

void check_affine_columns_dx(const lsi_kernels *k)
{
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        check_dx_of(k, sizes[i], false);
        check_dx_of(k, sizes[i], true);
        for (int kind = 0; kind < 3; kind++)
            check_half_of(k, sizes[i], kind);
    }
}

void check_column_moments_bf16(const lsi_kernels *k)
{
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        const size_t cols = sizes[i].cols, n = sizes[i].rows * cols;
        float *x = random_floats(n, -2, 2), *mean = floats(cols);
        float *m2 = floats(cols), *want = floats(cols), *want_m2 = floats(cols);
        const uint16_t *half = halved(x, n);
        k->column_moments_bf16(mean, m2, half, sizes[i].rows, cols);
        reference()->column_moments(want, want_m2, x, sizes[i].rows, cols);
        expect_same(mean, want, cols, "mean of bf16");
        expect_same(m2, want_m2, cols, "m2 of bf16");
        release_all();
    }
}
