/* The definition of kernels/chains.h, as plain loops. */
#include "array/kernels/chains.h"

#include <math.h>

enum { COLS = 16 };

static void multiply_row(const lsi_chains *p, float *c, const float *a)
{
    float sums[COLS] = {0};
    for (size_t k = 0; k < p->depth; k++)
        for (size_t j = 0; j < p->cols; j++)
            sums[j] = fmaf(a[p->at[k]], p->b[k * COLS + j], sums[j]);
    for (size_t j = 0; j < p->cols; j++) {
        float x = p->add ? c[j] + sums[j] : sums[j];
        x = p->bias ? x + p->bias[j] : x;
        c[j] = p->relu && x < 0.0F ? 0.0F : x;
    }
}

static void multiply(const lsi_chains *p)
{
    for (size_t i = 0; i < p->rows; i++)
        multiply_row(p, p->c[i] + p->first_c, p->a[i] + p->first_a);
}

const lsi_chain_ops lsi_chains_ref = {.panel = COLS, .multiply = multiply};
