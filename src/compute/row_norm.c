/* Normalisation of rows; see row_norm.h. */
#include "compute/row_norm.h"

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
    lsi_softmax_kind kind;
    size_t cols;
    float *out;
    const float *x, *dy, *y; /* forward reads x, backward the others */
} softmax_job;

/* Rows that make up a few thousand elements. */
static size_t grain(size_t cols)
{
    return 1 + ((size_t)1 << 12) / (cols + 1);
}

static void softmax_rows(void *context, size_t begin, size_t end)
{
    const softmax_job *j = context;
    const lsi_kernels *k = lsi_kernels_get();
    const size_t first = begin * j->cols;
    (j->kind == LSI_SOFTMAX ? k->softmax : k->log_softmax)(
        j->out + first, j->x + first, end - begin, j->cols);
}

void lsi_rows_softmax(lsi_softmax_kind kind, lsi_rows shape, float *y,
                      const float *x)
{
    softmax_job job = {.kind = kind, .cols = shape.cols, .out = y, .x = x};
    lsi_parallel_for(shape.rows, grain(shape.cols), softmax_rows, &job);
}

static void softmax_backward_rows(void *context, size_t begin, size_t end)
{
    const softmax_job *j = context;
    const lsi_kernels *k = lsi_kernels_get();
    const size_t first = begin * j->cols;
    (j->kind == LSI_SOFTMAX ? k->softmax_backward : k->log_softmax_backward)(
        j->out + first, j->dy + first, j->y + first, end - begin, j->cols);
}

void lsi_rows_softmax_backward(lsi_softmax_kind kind, lsi_rows shape, float *dx,
                               const float *dy, const float *y)
{
    softmax_job job = {
        .kind = kind, .cols = shape.cols, .out = dx, .dy = dy, .y = y};
    lsi_parallel_for(shape.rows, grain(shape.cols), softmax_backward_rows,
                     &job);
}
