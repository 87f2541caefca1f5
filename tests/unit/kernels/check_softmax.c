/*
 * Softmax of rows of n elements, with u = HALF_ULP. The error of e^x is 5 u
 * and, by way of x - largest, by |x - largest| u, which is at most u / e. Sums
 * of n have an error of (n + 5) u.
 */
#include <math.h>

#include "harness.h"
#include "testing.h"

typedef struct rows {
    size_t rows, cols, n;
    double largest, sum; /* of the row that was looked at last */
} rows;

static void look_at(rows *s, const float *x)
{
    s->largest = -INFINITY;
    s->sum = 0.0;
    for (size_t c = 0; c < s->cols; c++)
        s->largest = fmax(s->largest, (double)x[c]);
    for (size_t c = 0; c < s->cols; c++)
        s->sum += exp((double)x[c] - s->largest);
}

static void check_values(const lsi_kernels *k, size_t n_rows, size_t cols,
                         double range)
{
    rows s = {.rows = n_rows, .cols = cols, .n = n_rows * cols};
    const float *x = random_floats(s.n, -range, range);
    float *y = floats(s.n), *log_y = floats(s.n);
    k->softmax(y, x, n_rows, cols);
    k->log_softmax(log_y, x, n_rows, cols);
    for (size_t i = 0; i < s.n; i++) {
        look_at(&s, x + i / cols * cols);
        const double d = (double)x[i] - s.largest;
        const double want = exp(d) / s.sum, log_want = d - log(s.sum);
        const double sums = (double)cols + 16;
        expect_near((double)y[i], want,
                    (sums + fabs(d)) * HALF_ULP * want + 0x1p-120, "softmax",
                    i);
        expect_near((double)log_y[i], log_want,
                    (sums + 2 * fabs(d) + fabs(log_want)) * HALF_ULP,
                    "log_softmax", i);
    }
    float *in_place = copy_floats(x, s.n);
    k->softmax(in_place, in_place, n_rows, cols);
    expect_same(in_place, y, s.n, "softmax in place");
    in_place = copy_floats(x, s.n);
    k->log_softmax(in_place, in_place, n_rows, cols);
    expect_same(in_place, log_y, s.n, "log_softmax in place");
    release_all();
}

/* Rows whose largest is infinite or NaN are NaN; -inf among others is 0. */
static void check_special_rows(const lsi_kernels *k)
{
    const float x[] = {1, NAN, 3, -INFINITY, 0, 0, INFINITY, 0, 0};
    float y[9], log_y[9];
    k->softmax(y, x, 3, 3);
    k->log_softmax(log_y, x, 3, 3);
    for (int i = 0; i < 3; i++)
        assert_true(isnan(y[i]) && isnan(log_y[i]));
    assert_true(y[3] == 0.0F && y[4] == 0.5F && log_y[3] == -INFINITY);
    assert_true(isnan(y[6]) && isnan(log_y[6]));
}

static void check_both(const lsi_kernels *k)
{
    check_special_rows(k);
    for (size_t l = 1; l < test_length_count; l++) {
        check_values(k, 3, test_lengths[l], 3);
        check_values(k, 2, test_lengths[l], 200);
    }
    k->softmax(NULL, NULL, 0, 5);
    k->log_softmax(NULL, NULL, 0, 5);
}

void check_softmax(const lsi_kernels *k)
{
    check_both(k);
}

void check_log_softmax(const lsi_kernels *k)
{
    check_both(k);
}

/* ---- gradients ----------------------------------------------------------- */

void check_softmax_backward(const lsi_kernels *k)
{
    for (size_t l = 1; l < test_length_count; l++) {
        const size_t cols = test_lengths[l], n = 2 * cols;
        const float *y = random_floats(n, 0, 1);
        float *dy = random_floats(n, -2, 2), *dx = floats(n);
        k->softmax_backward(dx, dy, y, 2, cols);
        for (size_t i = 0; i < n; i++) {
            double sum = 0.0, size = 0.0;
            for (size_t c = i / cols * cols; c < (i / cols + 1) * cols; c++) {
                sum += (double)dy[c] * (double)y[c];
                size += fabs((double)dy[c] * (double)y[c]);
            }
            expect_near((double)dx[i], (double)y[i] * ((double)dy[i] - sum),
                        ((double)cols + 4) * HALF_ULP * (double)y[i] *
                            (size + fabs((double)dy[i])),
                        "softmax_backward", i);
        }
        k->softmax_backward(dy, dy, y, 2, cols);
        expect_same(dy, dx, n, "softmax_backward in place");
        release_all();
    }
}

void check_log_softmax_backward(const lsi_kernels *k)
{
    for (size_t l = 1; l < test_length_count; l++) {
        const size_t cols = test_lengths[l], n = 2 * cols;
        const float *y = random_floats(n, -6, 0);
        float *dy = random_floats(n, -2, 2), *dx = floats(n);
        k->log_softmax_backward(dx, dy, y, 2, cols);
        for (size_t i = 0; i < n; i++) {
            double sum = 0.0, size = 0.0;
            for (size_t c = i / cols * cols; c < (i / cols + 1) * cols; c++) {
                sum += (double)dy[c];
                size += fabs((double)dy[c]);
            }
            const double p = exp((double)y[i]);
            expect_near((double)dx[i], (double)dy[i] - p * sum,
                        ((double)cols + 8) * HALF_ULP *
                            (p * size + fabs((double)dy[i])),
                        "log_softmax_backward", i);
        }
        k->log_softmax_backward(dy, dy, y, 2, cols);
        expect_same(dy, dx, n, "log_softmax_backward in place");
        release_all();
    }
}
