/* Normalisation of rows; see row_norm.h. */
#include "compute/row_norm.h"

#include <math.h>

#include "base/threads.h"
#include "kernels/kernels.h"

enum { BLOCK = LSI_COLUMN_BLOCK };

typedef struct norm_job {
    const lsi_row_norm *norm;
    const lsi_row_norm_gradients *gradients; /* backward */
    float *y;                                /* forward */
    float eps;
} norm_job;

size_t lsi_row_norm_blocks(size_t rows)
{
    return (rows + BLOCK - 1) / BLOCK;
}

static size_t rows_of_block(const lsi_row_norm *n, size_t block)
{
    const size_t left = n->rows - block * BLOCK;
    return left < BLOCK ? left : BLOCK;
}

static void forward_block(void *context, size_t block, int worker)
{
    const norm_job *j = context;
    const lsi_row_norm *n = j->norm;
    const size_t row = block * BLOCK, at = row * n->cols;
    (void)worker;
    lsi_kernels_get()->normalize_rows(
        j->y + at, n->mean != NULL ? n->mean + row : NULL, n->inv_std + row,
        n->x + at, n->weight, n->bias, rows_of_block(n, block), n->cols,
        j->eps);
}

void lsi_row_norm_forward(const lsi_row_norm *norm, float *y, float eps)
{
    lsi_parallel_tasks(lsi_row_norm_blocks(norm->rows), forward_block,
                       &(norm_job){.norm = norm, .y = y, .eps = eps});
}

static void backward_block(void *context, size_t block, int worker)
{
    const norm_job *j = context;
    const lsi_row_norm *n = j->norm;
    const lsi_row_norm_gradients *g = j->gradients;
    const size_t row = block * BLOCK, at = row * n->cols;
    (void)worker;
    lsi_kernels_get()->normalize_rows_backward(
        g->dx + at, g->dweight + block * n->cols,
        g->dbias != NULL ? g->dbias + block * n->cols : NULL, g->dy + at,
        n->x + at, n->mean != NULL ? n->mean + row : NULL, n->inv_std + row,
        n->weight, rows_of_block(n, block), n->cols, g->accumulate);
}

void lsi_row_norm_backward(const lsi_row_norm *norm,
                           const lsi_row_norm_gradients *gradients)
{
    lsi_parallel_tasks(lsi_row_norm_blocks(norm->rows), backward_block,
                       &(norm_job){.norm = norm, .gradients = gradients});
}

/* ---- softmax ------------------------------------------------------------- */

typedef struct softmax_job {
    size_t cols;
    float *out;
    const float *x, *dy, *y; /* forward reads x, backward the others */
} softmax_job;

/* Rows that make up a few thousand elements. */
static size_t grain(size_t cols)
{
    return 1 + ((size_t)1 << 12) / (cols + 1);
}

static void softmax_row(float *y, const float *x, size_t n)
{
    float most = x[0];
    double sum = 0.0;
    for (size_t c = 1; c < n; c++)
        most = fmaxf(most, x[c]);
    for (size_t c = 0; c < n; c++) {
        y[c] = expf(x[c] - most);
        sum += (double)y[c];
    }
    for (size_t c = 0; c < n; c++)
        y[c] = (float)((double)y[c] / sum);
}

static void softmax_rows(void *context, size_t begin, size_t end)
{
    const softmax_job *j = context;
    for (size_t r = begin; r < end; r++)
        softmax_row(j->out + r * j->cols, j->x + r * j->cols, j->cols);
}

void lsi_rows_softmax(lsi_rows shape, float *y, const float *x)
{
    softmax_job job = {.cols = shape.cols, .out = y, .x = x};
    lsi_parallel_for(shape.rows, grain(shape.cols), softmax_rows, &job);
}

static void softmax_backward_rows(void *context, size_t begin, size_t end)
{
    const softmax_job *j = context;
    for (size_t r = begin; r < end; r++) {
        const float *dy = j->dy + r * j->cols, *y = j->y + r * j->cols;
        float *dx = j->out + r * j->cols;
        double sum = 0.0;
        for (size_t c = 0; c < j->cols; c++)
            sum += (double)dy[c] * (double)y[c];
        for (size_t c = 0; c < j->cols; c++)
            dx[c] = (float)((double)y[c] * ((double)dy[c] - sum));
    }
}

void lsi_rows_softmax_backward(lsi_rows shape, float *dx, const float *dy,
                               const float *y)
{
    softmax_job job = {.cols = shape.cols, .out = dx, .dy = dy, .y = y};
    lsi_parallel_for(shape.rows, grain(shape.cols), softmax_backward_rows,
                     &job);
}
