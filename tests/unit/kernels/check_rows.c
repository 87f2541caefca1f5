/*
 * Kernels over rows. A sum over a row is made of one sum for each lane.
 * AVX2 has 8 lanes and NEON 4: cols/8 or cols/4 roundings, and a few to add
 * the sums up.
 */
#include <math.h>

#include "harness.h"
#include "testing.h"

typedef struct extents {
    size_t rows, cols;
} extents;

static const extents sizes[] = {{0, 5},  {1, 1},  {2, 3},    {3, 16},
                                {7, 17}, {5, 64}, {33, 127}, {4, 1000}};

static const float eps = 1e-5F;

#if defined(__aarch64__)
static const double least_lanes = 4;
#else
static const double least_lanes = 8;
#endif

/* The relative error of a sum over a row, and of what is made of it. */
static double row_error(size_t cols)
{
    return ((double)cols / least_lanes + 12) * HALF_ULP;
}

/* ---- normalisation --------------------------------------------------------
 */

typedef struct statistics {
    double mean, size, inv_std; /* size: mean of |x| */
} statistics;

static statistics statistics_of(const float *x, size_t cols, bool centred)
{
    statistics s = {0};
    double variance = 0;
    for (size_t c = 0; c < cols; c++) {
        s.mean += centred ? (double)x[c] / (double)cols : 0.0;
        s.size += fabs((double)x[c]) / (double)cols;
    }
    for (size_t c = 0; c < cols; c++)
        variance += pow((double)x[c] - s.mean, 2) / (double)cols;
    s.inv_std = 1.0 / sqrt(variance + (double)eps);
    return s;
}

static void check_normalize(const lsi_kernels *k, extents e, bool centred)
{
    const size_t n = e.rows * e.cols;
    const float *x = random_floats(n, -1, 3);
    const float *weight = random_floats(e.cols, -2, 2);
    const float *bias = centred ? random_floats(e.cols, -2, 2) : NULL;
    float *y = floats(n), *in_place = copy_floats(x, n);
    float *mean = floats(e.rows), *inv_std = floats(e.rows);
    const double error = row_error(e.cols);
    k->normalize_rows(y, centred ? mean : NULL, inv_std, x, weight, bias,
                      e.rows, e.cols, eps);
    for (size_t i = 0; i < n; i++) {
        const size_t r = i / e.cols, c = i % e.cols;
        const statistics s = statistics_of(x + r * e.cols, e.cols, centred);
        /* A mean that is off by m makes the variance wrong by m^2, and what
         * is left of one that cancels is covered by eps. */
        const double off = error * (s.size + fabs((double)x[i])) * s.inv_std;
        const double x_hat = (x[i] - s.mean) * s.inv_std;
        const double b = bias ? (double)bias[c] : 0.0;
        expect_near(y[i], x_hat * weight[c] + b,
                    fabs((double)weight[c]) *
                            (2 * off + fabs(x_hat) * (error + off * off)) +
                        2 * HALF_ULP * fabs(b),
                    "normalize_rows", i);
        if (centred)
            expect_near(mean[r], s.mean, error * s.size, "the mean", r);
    }
    k->normalize_rows(in_place, centred ? mean : NULL, inv_std, in_place,
                      weight, bias, e.rows, e.cols, eps);
    expect_same(in_place, y, n, "normalize_rows in place");
    release_all();
}

void check_normalize_rows(const lsi_kernels *k)
{
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        check_normalize(k, sizes[i], false);
        check_normalize(k, sizes[i], true);
    }
}

/* The arrays of a backward pass. */
typedef struct pass {
    extents e;
    const float *dy, *x, *mean, *inv_std, *weight; /* mean may be NULL */
} pass;

static double x_hat_at(const pass *p, size_t r, size_t c)
{
    const double mean = p->mean ? (double)p->mean[r] : 0.0;
    return ((double)p->x[r * p->e.cols + c] - mean) * (double)p->inv_std[r];
}

static double g_at(const pass *p, size_t r, size_t c)
{
    return (double)p->weight[c] * (double)p->dy[r * p->e.cols + c];
}

static void expect_dx(const pass *p, const float *dx, const float *old_or_null)
{
    const size_t cols = p->e.cols;
    for (size_t r = 0; r < p->e.rows; r++) {
        double a = 0, size_a = 0, b = 0, size_b = 0;
        for (size_t c = 0; c < cols; c++) {
            const double g = g_at(p, r, c) / (double)cols;
            a += p->mean ? g : 0.0;
            size_a += p->mean ? fabs(g) : 0.0;
            b += g * x_hat_at(p, r, c);
            size_b += fabs(g * x_hat_at(p, r, c));
        }
        for (size_t c = 0; c < cols; c++) {
            const size_t i = r * cols + c;
            const double g = g_at(p, r, c), x_hat = x_hat_at(p, r, c);
            const double old = old_or_null ? (double)old_or_null[i] : 0.0;
            const double want = p->inv_std[r] * (g - a - x_hat * b);
            const double size =
                p->inv_std[r] * (fabs(g) + size_a + fabs(x_hat) * size_b);
            expect_near(dx[i], old + want,
                        row_error(cols) * size + HALF_ULP * fabs(old + want),
                        "normalize_rows_backward, dx", i);
        }
    }
}

static void expect_sums(const pass *p, const float *dweight,
                        const float *dbias_or_null)
{
    const double error = ((double)p->e.rows + 4) * HALF_ULP;
    for (size_t c = 0; c < p->e.cols; c++) {
        double dw = 0, size_w = 0, db = 0, size_b = 0;
        for (size_t r = 0; r < p->e.rows; r++) {
            const double dy = (double)p->dy[r * p->e.cols + c];
            dw += dy * x_hat_at(p, r, c);
            size_w += fabs(dy * x_hat_at(p, r, c));
            db += dy;
            size_b += fabs(dy);
        }
        expect_near(dweight[c], dw, error * size_w, "dweight", c);
        if (dbias_or_null)
            expect_near(dbias_or_null[c], db, error * size_b, "dbias", c);
    }
}

static void check_normalize_backward(const lsi_kernels *k, extents e,
                                     bool centred)
{
    const size_t n = e.rows * e.cols;
    const pass p = {.e = e,
                    .dy = random_floats(n, -2, 2),
                    .x = random_floats(n, -1, 3),
                    .mean = centred ? random_floats(e.rows, 0, 2) : NULL,
                    .inv_std = random_floats(e.rows, 0.5, 2),
                    .weight = random_floats(e.cols, -2, 2)};
    float *dx = floats(n), *sum = random_floats(n, -2, 2);
    const float *old = copy_floats(sum, n);
    float *dweight = floats(e.cols);
    float *dbias = centred ? floats(e.cols) : NULL;
    k->normalize_rows_backward(dx, dweight, dbias, p.dy, p.x, p.mean, p.inv_std,
                               p.weight, e.rows, e.cols, false);
    expect_dx(&p, dx, NULL);
    expect_sums(&p, dweight, dbias);
    k->normalize_rows_backward(sum, dweight, dbias, p.dy, p.x, p.mean,
                               p.inv_std, p.weight, e.rows, e.cols, true);
    expect_dx(&p, sum, old);
    float *in_place = copy_floats(p.dy, n);
    k->normalize_rows_backward(in_place, dweight, dbias, in_place, p.x, p.mean,
                               p.inv_std, p.weight, e.rows, e.cols, false);
    expect_same(in_place, dx, n, "normalize_rows_backward in place");
    release_all();
}

void check_normalize_rows_backward(const lsi_kernels *k)
{
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        check_normalize_backward(k, sizes[i], false);
        check_normalize_backward(k, sizes[i], true);
    }
}

/* ---- rotation: the same bits at every level --------------------------------
 */

static const size_t head_sizes[] = {2, 6, 16, 30, 64, 80, 130};
enum { HEADS = 3 };

static void check_rope_d(const lsi_kernels *k, size_t d, bool halves)
{
    const size_t n = HEADS * d;
    const float *x = random_floats(n, -2, 2);
    const float *cosine = random_floats(d / 2, -1, 1);
    const float *sine = random_floats(d / 2, -1, 1);
    float *y = floats(n), *want = floats(n);
    k->rope(y, x, cosine, sine, HEADS, d, halves);
    for (size_t i = 0; i < n; i++) {
        const size_t h = i / d * d, j = i % d;
        const size_t p = halves ? j % (d / 2) : j / 2;
        const bool second = halves ? j >= d / 2 : j % 2 == 1;
        const double a = x[h + 2 * p], b = x[h + 2 * p + 1];
        const double exact =
            second ? sine[p] * a + cosine[p] * b : cosine[p] * a - sine[p] * b;
        expect_near(y[i], exact, 2 * HALF_ULP * (fabs(a) + fabs(b)), "rope", i);
    }
    reference()->rope(want, x, cosine, sine, HEADS, d, halves);
    expect_same(y, want, n, "rope");
    release_all();
}

void check_rope(const lsi_kernels *k)
{
    for (size_t i = 0; i < TEST_COUNT(head_sizes); i++) {
        check_rope_d(k, head_sizes[i], false);
        check_rope_d(k, head_sizes[i], true);
    }
}

/* sum(dy rope(x)) = sum(rope_backward(dy) x) for all x: one element at a time.
 */
static void check_rope_backward_d(const lsi_kernels *k, size_t d, bool halves)
{
    const float *dy = random_floats(d, -2, 2);
    const float *cosine = random_floats(d / 2, -1, 1);
    const float *sine = random_floats(d / 2, -1, 1);
    float *unit = random_floats(d, 0, 0), *y = floats(d), *dx = floats(d);
    k->rope_backward(dx, dy, cosine, sine, 1, d, halves);
    for (size_t i = 0; i < d; i++) {
        double want = 0;
        unit[i] = 1;
        reference()->rope(y, unit, cosine, sine, 1, d, halves);
        for (size_t j = 0; j < d; j++)
            want += (double)dy[j] * (double)y[j];
        unit[i] = 0;
        expect_near(dx[i], want, 8 * HALF_ULP, "rope_backward", i);
    }
    float *many = random_floats(HEADS * d, -2, 2);
    float *got = floats(HEADS * d), *same = floats(HEADS * d);
    k->rope_backward(got, many, cosine, sine, HEADS, d, halves);
    reference()->rope_backward(same, many, cosine, sine, HEADS, d, halves);
    expect_same(got, same, HEADS * d, "rope_backward");
    release_all();
}

void check_rope_backward(const lsi_kernels *k)
{
    for (size_t i = 0; i < TEST_COUNT(head_sizes); i++) {
        check_rope_backward_d(k, head_sizes[i], false);
        check_rope_backward_d(k, head_sizes[i], true);
    }
}

static void check_rotate_half_d(const lsi_kernels *k, size_t d, bool back)
{
    const size_t n = HEADS * d;
    const float *x = random_floats(n, -2, 2);
    const float *cosine = random_floats(d / 2, -1, 1);
    const float *sine = random_floats(d / 2, -1, 1);
    float *y = floats(n), *want = floats(n);
    k->rotate_half(y, x, cosine, sine, HEADS, d, back);
    for (size_t i = 0; i < n; i++) {
        const size_t h = i / d * d, p = i % d % (d / 2);
        const double a = x[h + p], b = x[h + d / 2 + p];
        const double s = back ? -(double)sine[p] : (double)sine[p];
        const double exact =
            i % d >= d / 2 ? s * a + cosine[p] * b : cosine[p] * a - s * b;
        expect_near(y[i], exact, 2 * HALF_ULP * (fabs(a) + fabs(b)),
                    "rotate_half", i);
    }
    reference()->rotate_half(want, x, cosine, sine, HEADS, d, back);
    expect_same(y, want, n, "rotate_half");
    release_all();
}

void check_rotate_half(const lsi_kernels *k)
{
    for (size_t i = 0; i < TEST_COUNT(head_sizes); i++) {
        check_rotate_half_d(k, head_sizes[i], false);
        check_rotate_half_d(k, head_sizes[i], true);
    }
}
