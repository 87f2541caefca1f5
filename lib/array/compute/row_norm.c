/* Normalisation of rows; see row_norm.h. */
#include "array/compute/row_norm.h"
#include "observe/spans.h"

#include "array/compute/threads.h"
#include "array/kernels/kernels.h"

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
    LSI_SPAN(KERNEL, "row_norm", 8 * norm->rows * norm->cols,
             4 * norm->rows * norm->cols);
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
    LSI_SPAN(KERNEL, "row_norm_backward", 12 * norm->rows * norm->cols,
             10 * norm->rows * norm->cols);
    lsi_parallel_tasks(lsi_row_norm_blocks(norm->rows), backward_block,
                       &(norm_job){.norm = norm, .gradients = gradients});
}
