/* Products of portable bits as plain loops. */
#include <math.h>

#include "array/kernels/portable.h"
#include "array/kernels/portable_gemm.h"

enum { ROWS = 8, COLS = 16 };

static void pack(float *to, const lsi_strip *s, size_t width)
{
    const size_t lane_step = s->lanes_dense ? 1 : s->ld;
    const size_t term_step = s->lanes_dense ? s->ld : 1;
    for (size_t t = 0; t < s->terms; t++)
        for (size_t lane = 0; lane < width; lane++)
            *to++ = lane < s->lanes ? s->data[lane * lane_step + t * term_step]
                                    : 0.0F;
}

/* The row of a panel of A with `height` rows, at `a`, times a column of B. */
static float sum_of(const lsi_portable_product *p, const float *a,
                    size_t height, const float *b)
{
    float sum = 0.0F;
    for (size_t t = 0; t < p->terms; t++)
        sum = fmaf(a[t * height], b[t * p->ld_b], sum);
    return sum;
}

static void multiply(const lsi_portable_product *p)
{
    for (size_t row = 0; row < p->rows; row++) {
        const size_t first = row / ROWS * ROWS;
        const size_t height = p->rows - first < ROWS ? p->rows - first : ROWS;
        const float *a = p->a + first * p->terms + row - first;
        for (size_t col = 0; col < p->cols; col++) {
            float *c = p->c + row * p->ldc + col;
            float sum = sum_of(p, a, height, p->b + col);
            if (p->totals != NULL)
                sum = p->totals[row * p->ld_totals + col] + sum;
            if (p->bias_or_null != NULL)
                sum += p->bias_or_null[col];
            *c = p->accumulate ? sum + *c : sum;
        }
    }
}

static float product_of(const float *x, const float *w, size_t cols)
{
    float total = 0.0F;
    for (size_t at = 0, end; at < cols; at = end) {
        float sum = 0.0F;
        end = cols - at < LSI_PORTABLE_BLOCK ? cols : at + LSI_PORTABLE_BLOCK;
        for (size_t k = at; k < end; k++)
            sum = fmaf(x[k], w[k], sum);
        total = at == 0 ? sum : total + sum;
    }
    return total;
}

void lsi_ref_row_chains(float *y, size_t ld_y, const float *x, size_t n,
                        const float *w, size_t rows, size_t cols)
{
    for (size_t i = 0; i < n; i++)
        for (size_t r = 0; r < rows; r++)
            y[i * ld_y + r] = product_of(x + i * cols, w + r * cols, cols);
}

const lsi_portable_ops lsi_portable_ref = {.rows = ROWS,
                                           .lanes = COLS,
                                           .pack = pack,
                                           .multiply = multiply,
                                           .row_chains = lsi_ref_row_chains};
