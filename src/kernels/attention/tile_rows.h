/*
 * Softmax of one row that lies in memory, and its derivative: for the method
 * that stores the scores. The end of a row that fills no vector goes through a
 * padded copy.
 */
#ifndef LS_KERNELS_ATTENTION_TILE_ROWS_H
#define LS_KERNELS_ATTENTION_TILE_ROWS_H

#include <math.h>

#include "kernels/attention/tile.h"

static inline vec load_row(const float *row, size_t at, size_t n, float pad)
{
    if (at + V_LANES <= n)
        return v_load(row + at);
    float part[V_LANES];
    for (size_t i = 0; i < V_LANES; i++)
        part[i] = at + i < n ? row[at + i] : pad;
    return v_load(part);
}

static inline void store_part(float *row, size_t at, size_t n, vec x)
{
    if (at + V_LANES <= n) {
        v_store(row + at, x);
        return;
    }
    float part[V_LANES];
    v_store(part, x);
    memcpy(row + at, part, (n - at) * sizeof(float));
}

static inline float sum_lanes(vec x)
{
    float part[V_LANES], sum = 0.0F;
    v_store(part, x);
    for (int i = 0; i < V_LANES; i++)
        sum += part[i];
    return sum;
}

static float softmax_row(float *row, size_t n, float scale)
{
    vec most = v_set1(-FLT_MAX);
    for (size_t i = 0; i < n; i += V_LANES)
        most = v_max(most, load_row(row, i, n, -FLT_MAX));
    float part[V_LANES];
    v_store(part, most);
    float max = part[0];
    for (int i = 1; i < V_LANES; i++)
        max = part[i] > max ? part[i] : max;

    const vec scale2 = v_set1(scale * LOG2E), m = v_set1(max * scale * LOG2E);
    vec sum = v_set1(0.0F);
    for (size_t i = 0; i < n; i += V_LANES) {
        const vec s = load_row(row, i, n, -FLT_MAX);
        const vec p = v_exp2(v_fms(s, scale2, m));
        store_part(row, i, n, p);
        sum = v_add(sum, p);
    }
    const float total = sum_lanes(sum);
    const vec factor = v_set1(1.0F / total);
    for (size_t i = 0; i < n; i += V_LANES)
        store_part(row, i, n, v_mul(load_row(row, i, n, 0.0F), factor));
    return max * scale + logf(total);
}

static void softmax_backward_row(float *dp, const float *p, size_t n,
                                 float scale)
{
    vec sum = v_set1(0.0F);
    for (size_t i = 0; i < n; i += V_LANES)
        sum = v_fma(load_row(p, i, n, 0.0F), load_row(dp, i, n, 0.0F), sum);
    const vec factor = v_set1(scale), d = v_set1(sum_lanes(sum) * scale);
    for (size_t i = 0; i < n; i += V_LANES) {
        const vec x = v_fms(load_row(dp, i, n, 0.0F), factor, d);
        store_part(dp, i, n, v_mul(load_row(p, i, n, 0.0F), x));
    }
}

#endif
