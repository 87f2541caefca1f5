/* A row times a matrix of rows, and one query's attention. */
#include <math.h>

#include "harness.h"
#include "numbers.h"
#include "testing.h"

static void check_shape(const lsi_kernels *k, ls_dtype dtype, size_t rows,
                        size_t cols)
{
    const float *x = random_floats(cols, -2, 2);
    void *w = guarded(rows * cols * ls_dtype_size(dtype), 12);
    float *y = floats(rows), *alone = floats(1);
    for (size_t i = 0; i < rows * cols; i++)
        put_number(w, dtype, i, (long double)random_between(-1, 1));
    k->row_products(y, x, w, dtype, rows, cols);
    for (size_t r = 0; r < rows; r++) {
        double want = 0, size = 0;
        for (size_t c = 0; c < cols; c++) {
            const double term =
                (double)x[c] * (double)get_number(w, dtype, r * cols + c);
            want += term;
            size += fabs(term);
        }
        expect_near(y[r], want, (double)(cols + 2) * HALF_ULP * size,
                    "row_products", r);
        k->row_products(alone, x, (char *)w + r * cols * ls_dtype_size(dtype),
                        dtype, 1, cols);
        expect_same(&y[r], alone, 1, "a row of row_products");
    }
    release_all();
}

void check_row_products(const lsi_kernels *k)
{
    static const ls_dtype types[] = {LS_F32, LS_BF16, LS_F16};
    for (size_t t = 0; t < TEST_COUNT(types); t++)
        for (size_t l = 0; l < test_length_count; l++)
            for (size_t rows = 0; rows < 10; rows += 3)
                if (test_lengths[l] < 5000)
                    check_shape(k, types[t], rows, test_lengths[l]);
}

/*
 * A score is wrong by at most (d + 2) u of its terms, so that its exponential
 * is by about as much, relatively, and so is their sum; the exponential itself
 * by 4 u, and n products are added.
 */
static void check_attention(const lsi_kernels *k, size_t n, size_t d)
{
    const float *q = random_floats(d, -1, 1);
    const float *keys = random_floats(n * d, -1, 1);
    const float *v = random_floats(n * d, -1, 1);
    float *y = floats(d), *scores = floats(n);
    double p[300] = {0}, most = -INFINITY, total = 0;
    const double scale = 0.5, size = (double)d; /* of a score's terms */
    assert_true(n <= TEST_COUNT(p));
    k->attend(y, scores, q, keys, v, n, d, (float)scale);
    for (size_t r = 0; r < n; r++) {
        for (size_t c = 0; c < d; c++)
            p[r] += (double)q[c] * (double)keys[r * d + c];
        most = fmax(most, p[r]);
    }
    for (size_t r = 0; r < n; r++)
        total += p[r] = exp(scale * (p[r] - most));
    for (size_t c = 0; c < d; c++) {
        double want = 0;
        for (size_t r = 0; r < n; r++)
            want += p[r] * (double)v[r * d + c] / total;
        expect_near(y[c], want,
                    (4 * scale * (double)(d + 3) * size + (double)n + 16) *
                        HALF_ULP,
                    "attend", c);
    }
    release_all();
}

void check_attend(const lsi_kernels *k)
{
    static const size_t keys[] = {0, 1, 2, 5, 16, 33, 100, 257};
    static const size_t sizes[] = {1, 2, 8, 16, 31, 64, 80, 130};
    for (size_t i = 0; i < TEST_COUNT(keys); i++)
        for (size_t j = 0; j < TEST_COUNT(sizes); j++)
            check_attention(k, keys[i], sizes[j]);
}
