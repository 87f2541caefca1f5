/*
 * Kernels over columns: the same bits at every level. A sum over rows is one
 * of blocks, so its error is bounded by the rows of a block and the number of
 * blocks.
 */
#include <math.h>

#include "harness.h"
#include "testing.h"

typedef struct extents {
    size_t rows, cols;
} extents;

static const extents sizes[] = {
    {0, 5},  {1, 1},   {2, 3},    {3, 16},  {7, 17},   {31, 33},  {32, 64},
    {33, 5}, {64, 65}, {65, 127}, {5, 128}, {1000, 9}, {4, 1000}, {96, 40}};

/* The part of the sum of |terms| that a sum over rows may be off. */
static double sum_error(size_t rows)
{
    return (LSI_COLUMN_BLOCK + (double)rows / LSI_COLUMN_BLOCK + 1) * HALF_ULP;
}

typedef struct column {
    double sum, size; /* of the elements, of their absolute values */
} column;

static column column_of(const float *a, extents e, size_t c)
{
    column out = {0, 0};
    for (size_t r = 0; r < e.rows; r++) {
        out.sum += a[r * e.cols + c];
        out.size += fabs((double)a[r * e.cols + c]);
    }
    return out;
}

static void check_column_sum_of(const lsi_kernels *k, extents e)
{
    const float *a = random_floats(e.rows * e.cols, -2, 2);
    float *out = floats(e.cols), *want = floats(e.cols);
    float *sum = random_floats(e.cols, -2, 2), *old = copy_floats(sum, e.cols);
    k->column_sum(out, a, e.rows, e.cols, e.cols, false);
    k->column_sum(sum, a, e.rows, e.cols, e.cols, true);
    for (size_t c = 0; c < e.cols; c++) {
        const column x = column_of(a, e, c);
        const double bound = sum_error(e.rows) * x.size;
        expect_near(out[c], x.sum, bound, "column_sum", c);
        expect_near(sum[c], old[c] + x.sum,
                    bound + HALF_ULP * (fabs((double)old[c]) + x.size),
                    "column_sum, accumulating", c);
    }
    reference()->column_sum(want, a, e.rows, e.cols, e.cols, false);
    expect_same(out, want, e.cols, "column_sum");
    reference()->column_sum(old, a, e.rows, e.cols, e.cols, true);
    expect_same(sum, old, e.cols, "column_sum, accumulating");
    release_all();
}

void check_column_sum(const lsi_kernels *k)
{
    for (size_t i = 0; i < TEST_COUNT(sizes); i++)
        check_column_sum_of(k, sizes[i]);
}

/*
 * The mean of the first pass is as far off as its sum. The second corrects it
 * up to the rounding of the differences, which are as large as a - mean, and
 * one of the mean. If the first mean is off by d, m2 is rows d^2 too large
 * before it is corrected; each of its terms has the rounding of the difference
 * twice and that of the product.
 */
static void check_moments_of(const lsi_kernels *k, extents e, double centre)
{
    const float *a = random_floats(e.rows * e.cols, centre - 2, centre + 2);
    float *mean = floats(e.cols), *m2 = floats(e.cols);
    float *want_mean = floats(e.cols), *want_m2 = floats(e.cols);
    k->column_moments(mean, m2, a, e.rows, e.cols);
    const double rows = (double)e.rows;
    for (size_t c = 0; c < e.cols; c++) {
        const column x = column_of(a, e, c);
        const double mu = e.rows > 0 ? x.sum / rows : 0;
        double want = 0, spread = 0;
        for (size_t r = 0; r < e.rows; r++) {
            const double d = a[r * e.cols + c] - mu;
            want += d * d;
            spread += fabs(d);
        }
        const double first =
            e.rows > 0 ? (sum_error(e.rows) + HALF_ULP) * x.size / rows : 0;
        const double second = e.rows > 0 ? (sum_error(e.rows) + 3 * HALF_ULP) *
                                               (spread / rows + first)
                                         : 0;
        const double shift = rows * first * first;
        expect_near(mean[c], mu, HALF_ULP * (fabs(mu) + second) + second,
                    "mean", c);
        expect_near(m2[c], want,
                    shift + (sum_error(e.rows) + 3 * HALF_ULP) * (want + shift),
                    "m2", c);
    }
    reference()->column_moments(want_mean, want_m2, a, e.rows, e.cols);
    expect_same(mean, want_mean, e.cols, "mean");
    expect_same(m2, want_m2, e.cols, "m2");
    release_all();
}

void check_column_moments(const lsi_kernels *k)
{
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        check_moments_of(k, sizes[i], 0);
        check_moments_of(k, sizes[i], 1e4); /* must not cancel */
    }
}

/* The statistics and parameters of some columns. */
typedef struct norm {
    float *mean, *inv_std, *weight, *bias, *a, *b;
} norm;

static norm random_norm(size_t cols)
{
    return (norm){.mean = random_floats(cols, -1, 1),
                  .inv_std = random_floats(cols, 0.1, 2),
                  .weight = random_floats(cols, -2, 2),
                  .bias = random_floats(cols, -2, 2),
                  .a = random_floats(cols, -1, 1),
                  .b = random_floats(cols, -1, 1)};
}

static void check_normalize_of(const lsi_kernels *k, extents e, bool affine)
{
    const size_t n = e.rows * e.cols;
    const norm p = random_norm(e.cols);
    const float *w = affine ? p.weight : NULL, *b = affine ? p.bias : NULL;
    float *x = random_floats(n, -2, 2), *y = floats(n), *want = floats(n);
    k->normalize_columns(y, x, p.mean, p.inv_std, w, b, e.rows, e.cols);
    for (size_t i = 0; i < n; i++) {
        const size_t c = i % e.cols;
        const double x_hat = ((double)x[i] - p.mean[c]) * p.inv_std[c];
        const double scaled = affine ? x_hat * w[c] : x_hat;
        const double shifted = affine ? scaled + b[c] : scaled;
        expect_near(y[i], shifted,
                    HALF_ULP * (2 * fabs(scaled) + fabs(shifted)),
                    "normalize_columns", i);
    }
    reference()->normalize_columns(want, x, p.mean, p.inv_std, w, b, e.rows,
                                   e.cols);
    expect_same(y, want, n, "normalize_columns");
    k->normalize_columns(x, x, p.mean, p.inv_std, w, b, e.rows, e.cols);
    expect_same(x, want, n, "normalize_columns in place");
    release_all();
}

void check_normalize_columns(const lsi_kernels *k)
{
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        check_normalize_of(k, sizes[i], false);
        check_normalize_of(k, sizes[i], true);
    }
}

static void check_sums_of(const lsi_kernels *k, extents e)
{
    const size_t n = e.rows * e.cols;
    const norm p = random_norm(e.cols);
    const float *x = random_floats(n, -2, 2), *dy = random_floats(n, -2, 2);
    float *sum = floats(e.cols), *dot = floats(e.cols);
    float *want_sum = floats(e.cols), *want_dot = floats(e.cols);
    k->batch_norm_sums(sum, dot, dy, x, p.mean, p.inv_std, e.rows, e.cols);
    for (size_t c = 0; c < e.cols; c++) {
        const column g = column_of(dy, e, c);
        double want = 0, size = 0;
        for (size_t i = c; i < n; i += e.cols) {
            const double term =
                dy[i] * ((double)x[i] - p.mean[c]) * p.inv_std[c];
            want += term;
            size += fabs(term);
        }
        expect_near(sum[c], g.sum, sum_error(e.rows) * g.size, "sum_dy", c);
        expect_near(dot[c], want, (sum_error(e.rows) + 2 * HALF_ULP) * size,
                    "sum_dy_xhat", c);
    }
    reference()->batch_norm_sums(want_sum, want_dot, dy, x, p.mean, p.inv_std,
                                 e.rows, e.cols);
    expect_same(sum, want_sum, e.cols, "sum_dy");
    expect_same(dot, want_dot, e.cols, "sum_dy_xhat");
    release_all();
}

void check_batch_norm_sums(const lsi_kernels *k)
{
    for (size_t i = 0; i < TEST_COUNT(sizes); i++)
        check_sums_of(k, sizes[i]);
}

static void check_dx_of(const lsi_kernels *k, extents e, bool affine,
                        bool accumulate)
{
    const size_t n = e.rows * e.cols;
    const norm p = random_norm(e.cols);
    const float *w = affine ? p.weight : NULL;
    const float *x = random_floats(n, -2, 2), *dy = random_floats(n, -2, 2);
    float *dx = random_floats(n, -2, 2), *want = copy_floats(dx, n);
    const float *old = copy_floats(dx, n);
    k->batch_norm_dx(dx, dy, x, p.mean, p.inv_std, w, p.a, p.b, e.rows, e.cols,
                     accumulate);
    for (size_t i = 0; i < n; i++) {
        const size_t c = i % e.cols;
        const double s = (double)p.inv_std[c] * (affine ? w[c] : 1.0F);
        const double x_hat = ((double)x[i] - p.mean[c]) * p.inv_std[c];
        const double before = accumulate ? old[i] : 0.0;
        const double g = s * ((double)dy[i] - p.a[c] - x_hat * p.b[c]);
        const double size = fabs(s) * (fabs((double)dy[i]) + fabs(p.a[c]) +
                                       fabs(x_hat * p.b[c]));
        expect_near(dx[i], before + g, HALF_ULP * (5 * size + fabs(before + g)),
                    "batch_norm_dx", i);
    }
    reference()->batch_norm_dx(want, dy, x, p.mean, p.inv_std, w, p.a, p.b,
                               e.rows, e.cols, accumulate);
    expect_same(dx, want, n, "batch_norm_dx");
    release_all();
}

void check_batch_norm_dx(const lsi_kernels *k)
{
    for (size_t i = 0; i < TEST_COUNT(sizes); i++)
        for (int kind = 0; kind < 4; kind++)
            check_dx_of(k, sizes[i], kind & 1, kind & 2);
}
