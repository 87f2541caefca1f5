/*
 * The kernels of simd/products.h for portable bits: each result is computed as
 * in training, where a matrix product (portable.h) and attention's tiles
 * compute many rows. ROW_CHAINS is the lsi_<level>_row_chains to use.
 */
#ifndef LS_ARRAY_KERNELS_SIMD_PORTABLE_PRODUCTS_H
#define LS_ARRAY_KERNELS_SIMD_PORTABLE_PRODUCTS_H

#include "array/kernels/simd/words.h" /* first, which chooses the words */

#include "array/kernels/attention/exp2.h"
#include "array/kernels/attention/flash.h"
#include "array/kernels/portable_gemm.h"

#ifndef ROW_CHAINS /* looked at alone */
#    define ROW_CHAINS lsi_ref_row_chains
#endif

/* Half types, which portable bits are not promised for, have the reference. */
void LSI_SIMD(row_products)(float *y, const float *x, const void *w,
                            ls_dtype w_dtype, size_t rows, size_t cols)
{
    if (w_dtype == LS_F32)
        ROW_CHAINS(y, rows, x, 1, w, rows, cols);
    else
        lsi_ref_row_products(y, x, w, w_dtype, rows, cols);
}

/* ---- attention of one query -----------------------------------------------
 */

/* The largest score so far and the sum of exponentials, in all lanes. */
typedef struct running_softmax {
    vf most, sum;
} running_softmax;

/*
 * Makes exponentials of the scores of a tile of keys. Returns the factor of the
 * sums before it.
 */
INLINE vf soften_tile(running_softmax *s, float *scores, size_t n, vf scale)
{
    const vf before = s->most;
    FOR_LANES(
        n, { s->most = vf_max(vf_load_or(scores + i, m, before), s->most); });
    s->most = vf_set(vf_max_lane(s->most));
    const vf shift = vf_mul(s->most, scale);
    const vf alpha = vf_exp2(vf_sub(vf_mul(before, scale), shift));
    FOR_LANES(n, {
        const vf score = vf_load(scores + i, m);
        vf_store(scores + i, vf_exp2(vf_fms(score, scale, shift)), m);
    });
    float sum = 0.0F; /* of pairs, as tile_forward.h adds them */
    for (size_t i = 0; i + 1 < n; i += 2)
        sum += scores[i] + scores[i + 1];
    if (n % 2 == 1)
        sum += scores[n - 1];
    s->sum = vf_fma(s->sum, alpha, vf_set(sum));
    return alpha;
}

/* y = y alpha + the sum of p[r] v[r], `vecs` vectors, m lanes if it is one. */
INLINE void add_values(float *y, const float *p, const float *v, size_t n,
                       size_t d, vf alpha, size_t vecs, size_t m)
{
    vf sum[4];
    for (size_t j = 0; j < vecs; j++)
        sum[j] = vf_set(0.0F);
    for (size_t r = 0; r < n; r++) {
        const vf weight = vf_set(p[r]);
        for (size_t j = 0; j < vecs; j++)
            sum[j] = vf_fma(weight, vf_load(v + r * d + j * LANES, m), sum[j]);
    }
    for (size_t j = 0; j < vecs; j++) {
        float *to = y + j * LANES;
        vf_store(to, vf_fma(vf_load(to, m), alpha, sum[j]), m);
    }
}

void LSI_SIMD(attend)(float *y, float *scores, const float *q, const float *k,
                      const float *v, size_t n, size_t d, float scale)
{
    const vf scale2 = vf_set(scale * LOG2E);
    running_softmax s = {vf_set(-FLT_MAX), vf_set(0.0F)};
    memset(y, 0, d * sizeof(*y));
    for (size_t tile = 0; tile < n; tile += LSI_FLASH_KEYS) {
        const size_t keys = smaller(LSI_FLASH_KEYS, n - tile);
        const float *from = k + tile * d, *values = v + tile * d;
        float *p = scores + tile;
        ROW_CHAINS(p, keys, q, 1, from, keys, d);
        const vf alpha = soften_tile(&s, p, keys, scale2);
        size_t c = 0;
        for (; c + 4 * LANES <= d; c += 4 * LANES)
            add_values(y + c, p, values + c, keys, d, alpha, 4, LANES);
        for (; c < d; c += LANES)
            add_values(y + c, p, values + c, keys, d, alpha, 1,
                       smaller(LANES, d - c));
    }
    const vf factor = vf_div(vf_set(1.0F), s.sum);
    for (size_t c = 0; n > 0 && c < d; c += LANES) {
        const size_t m = smaller(LANES, d - c);
        vf_store(y + c, vf_mul(vf_load(y + c, m), factor), m);
    }
}

#endif
