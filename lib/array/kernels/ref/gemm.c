/* The matrix product, summed in f32 in the order of k. */
#include "array/kernels/ref/dense.h"
#include "base/half.h"

enum { TILE = 64 }; /* columns of C computed together */

static float load(const void *array, ls_dtype dtype, int64_t i)
{
    if (dtype == LS_F32)
        return ((const float *)array)[i];
    const uint16_t half = ((const uint16_t *)array)[i];
    return dtype == LS_BF16 ? lsi_bf16_to_f32(half) : lsi_f16_to_f32(half);
}

static void store(void *array, ls_dtype dtype, int64_t i, float value)
{
    if (dtype == LS_F32)
        ((float *)array)[i] = value;
    else
        ((uint16_t *)array)[i] = dtype == LS_BF16 ? lsi_bf16_from_f32(value)
                                                  : lsi_f16_from_f32(value);
}

/* acc[j] = sum over k of A[row][k] B[k][first + j], j < width. */
static void multiply_row(float *acc, const lsi_gemm_shape *g, const void *a,
                         const void *b, int64_t row, int64_t first,
                         int64_t width)
{
    const int64_t a_row = g->a_transposed ? 1 : g->lda;
    const int64_t a_step = g->a_transposed ? g->lda : 1;
    const int64_t b_step = g->b_transposed ? 1 : g->ldb;
    const int64_t b_column = g->b_transposed ? g->ldb : 1;
    for (int64_t j = 0; j < width; j++)
        acc[j] = 0.0F;
    for (int64_t k = 0; k < g->k; k++) {
        const float x = load(a, g->ab_dtype, row * a_row + k * a_step);
        const int64_t b_row = k * b_step;
        for (int64_t j = 0; j < width; j++)
            acc[j] += x * load(b, g->ab_dtype, b_row + (first + j) * b_column);
    }
}

void lsi_ref_gemm(const lsi_gemm_shape *g, void *c, const void *a,
                  const void *b, const float *bias_or_null)
{
    float acc[TILE];
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t first = 0; first < g->n; first += TILE) {
            const int64_t rest = g->n - first;
            const int64_t width = rest < TILE ? rest : TILE;
            multiply_row(acc, g, a, b, i, first, width);
            for (int64_t j = 0; j < width; j++) {
                const int64_t at = i * g->ldc + first + j;
                float value = acc[j];
                if (bias_or_null)
                    value += bias_or_null[first + j];
                if (g->accumulate)
                    value += load(c, g->c_dtype, at);
                store(c, g->c_dtype, at, value);
            }
        }
}
