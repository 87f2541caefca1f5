/* Kernels over the rows of a matrix: normalisation, rotation. */
#include <math.h>

#include "array/kernels/ref/ref.h"

/* ---- normalisation --------------------------------------------------------
 */

static double row_mean(const float *x, size_t cols)
{
    double sum = 0.0;
    for (size_t c = 0; c < cols; c++)
        sum += (double)x[c];
    return sum / (double)cols;
}

static double row_variance(const float *x, double mean, size_t cols)
{
    double sum = 0.0;
    for (size_t c = 0; c < cols; c++)
        sum += ((double)x[c] - mean) * ((double)x[c] - mean);
    return sum / (double)cols;
}

void lsi_ref_normalize_rows(float *y, float *mean_or_null, float *inv_std,
                            const float *x, const float *weight,
                            const float *bias_or_null, size_t rows, size_t cols,
                            float eps)
{
    for (size_t r = 0; r < rows; r++) {
        const float *row = x + r * cols;
        const double mean = mean_or_null ? row_mean(row, cols) : 0.0;
        const double s =
            1.0 / sqrt(row_variance(row, mean, cols) + (double)eps);
        inv_std[r] = (float)s;
        if (mean_or_null)
            mean_or_null[r] = (float)mean;
        for (size_t c = 0; c < cols; c++) {
            const double b = bias_or_null ? (double)bias_or_null[c] : 0.0;
            const double x_hat = ((double)row[c] - mean) * s;
            y[r * cols + c] = (float)(x_hat * (double)weight[c] + b);
        }
    }
}

/* One row of a matrix whose rows are normalised, on the way back. */
typedef struct norm_row {
    const float *dy, *x, *weight;
    double mean, inv_std;
} norm_row;

static double x_hat_at(const norm_row *row, size_t c)
{
    return ((double)row->x[c] - row->mean) * row->inv_std;
}

static void norm_row_dx(float *dx, const norm_row *row, size_t cols,
                        bool centred, bool accumulate)
{
    double sum = 0.0, sum_x_hat = 0.0;
    for (size_t c = 0; c < cols; c++) {
        const double g = (double)row->weight[c] * (double)row->dy[c];
        sum += g / (double)cols;
        sum_x_hat += g * x_hat_at(row, c) / (double)cols;
    }
    for (size_t c = 0; c < cols; c++) {
        const double g = (double)row->weight[c] * (double)row->dy[c];
        const double inner =
            g - (centred ? sum : 0.0) - x_hat_at(row, c) * sum_x_hat;
        const float out = (float)(row->inv_std * inner);
        dx[c] = accumulate ? dx[c] + out : out;
    }
}

void lsi_ref_normalize_rows_backward(float *dx, float *dweight,
                                     float *dbias_or_null, const float *dy,
                                     const float *x, const float *mean_or_null,
                                     const float *inv_std, const float *weight,
                                     size_t rows, size_t cols, bool accumulate)
{
    for (size_t c = 0; c < cols; c++) {
        dweight[c] = 0.0F;
        if (dbias_or_null)
            dbias_or_null[c] = 0.0F;
    }
    for (size_t r = 0; r < rows; r++) {
        const norm_row row = {.dy = dy + r * cols,
                              .x = x + r * cols,
                              .weight = weight,
                              .mean =
                                  mean_or_null ? (double)mean_or_null[r] : 0.0,
                              .inv_std = (double)inv_std[r]};
        for (size_t c = 0; c < cols; c++) {
            dweight[c] += (float)((double)row.dy[c] * x_hat_at(&row, c));
            if (dbias_or_null)
                dbias_or_null[c] += row.dy[c];
        }
        norm_row_dx(dx + r * cols, &row, cols, mean_or_null != NULL,
                    accumulate);
    }
}

/* ---- rotation --------------------------------------------------------------
 */

/* The places of the two elements of pair k in the rotated row. */
typedef struct pair {
    size_t a, b;
} pair;

static pair pair_at(size_t k, size_t d, bool halves)
{
    return halves ? (pair){k, d / 2 + k} : (pair){2 * k, 2 * k + 1};
}

void lsi_ref_rope(float *y, const float *x, const float *cosine,
                  const float *sine, size_t heads, size_t d, bool halves)
{
    for (size_t h = 0; h < heads; h++, x += d, y += d)
        for (size_t k = 0; k < d / 2; k++) {
            const pair to = pair_at(k, d, halves);
            const float a = x[2 * k], b = x[2 * k + 1];
            y[to.a] = cosine[k] * a - sine[k] * b;
            y[to.b] = sine[k] * a + cosine[k] * b;
        }
}

void lsi_ref_rope_backward(float *dx, const float *dy, const float *cosine,
                           const float *sine, size_t heads, size_t d,
                           bool halves)
{
    for (size_t h = 0; h < heads; h++, dx += d, dy += d)
        for (size_t k = 0; k < d / 2; k++) {
            const pair from = pair_at(k, d, halves);
            const float a = dy[from.a], b = dy[from.b];
            dx[2 * k] = cosine[k] * a + sine[k] * b;
            dx[2 * k + 1] = cosine[k] * b - sine[k] * a;
        }
}

void lsi_ref_rotate_half(float *y, const float *x, const float *cosine,
                         const float *sine, size_t heads, size_t d, bool back)
{
    for (size_t h = 0; h < heads; h++, x += d, y += d)
        for (size_t k = 0; k < d / 2; k++) {
            const float a = x[k], b = x[d / 2 + k];
            const float s = back ? -sine[k] : sine[k];
            y[k] = cosine[k] * a - s * b;
            y[d / 2 + k] = s * a + cosine[k] * b;
        }
}
