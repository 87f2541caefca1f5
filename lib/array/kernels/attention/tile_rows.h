/*
 * Softmax of one row in memory, and its derivative, for the method that stores
 * the scores. The end of a row that does not fill a vector goes through a
 * padded copy.
 */
#ifndef LS_ARRAY_KERNELS_ATTENTION_TILE_ROWS_H
#define LS_ARRAY_KERNELS_ATTENTION_TILE_ROWS_H

#include <math.h>

#include "array/kernels/attention/tile.h"
#include "base/math.h"

static inline vf load_row(const float *row, size_t at, size_t n, float pad)
{
    if (at + LANES <= n)
        return vf_load(row + at, LANES);
    float part[LANES];
    for (size_t i = 0; i < LANES; i++)
        part[i] = at + i < n ? row[at + i] : pad;
    return vf_load(part, LANES);
}

static inline void store_part(float *row, size_t at, size_t n, vf x)
{
    if (at + LANES <= n) {
        vf_store(row + at, x, LANES);
        return;
    }
    float part[LANES];
    vf_store(part, x, LANES);
    memcpy(row + at, part, (n - at) * sizeof(float));
}

static inline float sum_lanes(vf x)
{
    float part[LANES], sum = 0.0F;
    vf_store(part, x, LANES);
    for (size_t i = 0; i < LANES; i++)
        sum += part[i];
    return sum;
}

static float softmax_row(float *row, size_t n, float scale)
{
    vf most = vf_set(-FLT_MAX);
    for (size_t i = 0; i < n; i += LANES)
        most = vf_max(most, load_row(row, i, n, -FLT_MAX));
    float part[LANES];
    vf_store(part, most, LANES);
    float max = part[0];
    for (size_t i = 1; i < LANES; i++)
        max = part[i] > max ? part[i] : max;

    const vf scale2 = vf_set(scale * LOG2E), m = vf_set(max * scale * LOG2E);
    vf sum = vf_set(0.0F);
    for (size_t i = 0; i < n; i += LANES) {
        const vf s = load_row(row, i, n, -FLT_MAX);
        const vf p = vf_exp2(vf_fms(s, scale2, m));
        store_part(row, i, n, p);
        sum = vf_add(sum, p);
    }
    const float total = sum_lanes(sum);
    const vf factor = vf_set(1.0F / total);
    for (size_t i = 0; i < n; i += LANES)
        store_part(row, i, n, vf_mul(load_row(row, i, n, 0.0F), factor));
    return max * scale + (float)lsi_ln((double)total);
}

static void softmax_backward_row(float *dp, const float *p, size_t n,
                                 float scale)
{
    vf sum = vf_set(0.0F);
    for (size_t i = 0; i < n; i += LANES)
        sum = vf_fma(load_row(p, i, n, 0.0F), load_row(dp, i, n, 0.0F), sum);
    const vf factor = vf_set(scale), d = vf_set(sum_lanes(sum) * scale);
    for (size_t i = 0; i < n; i += LANES) {
        const vf x = vf_fms(load_row(dp, i, n, 0.0F), factor, d);
        store_part(dp, i, n, vf_mul(load_row(p, i, n, 0.0F), x));
    }
}

#endif
