/*
 * Columns that are shifted and scaled, and their gradients. The values of a
 * panel of columns stay in registers all the way down the rows; sums are in the
 * order of the reference. Functions below are compiled for each choice that
 * their constant arguments make.
 */
#ifndef LS_ARRAY_KERNELS_SIMD_AFFINE_H
#define LS_ARRAY_KERNELS_SIMD_AFFINE_H

#include "array/kernels/simd/columns.h"

enum { AFFINE_PANEL = 4 };

INLINE void load_panel(vf *out, const float *from, size_t vectors, size_t m)
{
    for (size_t v = 0; v < vectors; v++)
        out[v] = vf_load(from + v * LANES, m);
}

INLINE void affine_of(void *y, const void *x, const void *residual,
                      const float *mean, const float *scale, const float *bias,
                      size_t rows, size_t cols, bool relu, bool half)
{
    FOR_PANELS(cols, AFFINE_PANEL, {
        vf mu[AFFINE_PANEL];
        vf s[AFFINE_PANEL];
        vf b[AFFINE_PANEL];
        load_panel(mu, mean + c, vectors, m);
        load_panel(s, scale + c, vectors, m);
        load_panel(b, bias + c, vectors, m);
        for (size_t r = 0; r < rows; r++)
            for (size_t v = 0; v < vectors; v++) {
                const size_t i = r * cols + c + v * LANES;
                const vf d = vf_sub(load_real(x, i, m, half), mu[v]);
                vf z = vf_fma(d, s[v], b[v]);
                if (residual != NULL)
                    z = vf_add(z, load_real(residual, i, m, half));
                if (relu)
                    z = vf_max(vf_set(0.0F), z);
                store_real(y, i, z, m, half);
            }
    });
}

void LSI_SIMD(affine_columns)(void *y, const void *x,
                              const void *residual_or_null, const float *mean,
                              const float *scale, const float *bias,
                              size_t rows, size_t cols, bool relu, bool half)
{
    const void *r = residual_or_null;
    if (half && r != NULL)
        affine_of(y, x, r, mean, scale, bias, rows, cols, relu, true);
    else if (half)
        affine_of(y, x, NULL, mean, scale, bias, rows, cols, relu, true);
    else if (r != NULL)
        affine_of(y, x, r, mean, scale, bias, rows, cols, relu, false);
    else
        affine_of(y, x, NULL, mean, scale, bias, rows, cols, relu, false);
}

/* How dz follows from dy, and the matrices. */
typedef enum gate { GATE_OPEN, GATE_BY_Y, GATE_BY_X } gate;

typedef struct gated {
    const void *dy, *x, *y; /* y if the gate is by it */
    void *dz;               /* or NULL */
    const float *mean, *scale, *bias;
    size_t rows, cols;
} gated;

/* The sums of some rows of a panel. */
INLINE void affine_sums_block(vf *sum, vf *dot, const gated *g, const vf *mean,
                              const vf *scale, const vf *bias, size_t begin,
                              size_t end, size_t c, gate by, bool half,
                              size_t vectors, size_t m)
{
    for (size_t r = begin; r < end; r++)
        for (size_t v = 0; v < vectors; v++) {
            const size_t i = r * g->cols + c + v * LANES;
            const vf d = vf_sub(load_real(g->x, i, m, half), mean[v]);
            vf dz = load_real(g->dy, i, m, half);
            if (by == GATE_BY_Y)
                dz = vf_keep(vf_gt(load_real(g->y, i, m, half), vf_set(0.0F)),
                             dz);
            else if (by == GATE_BY_X)
                dz = vf_keep(vf_gt(vf_fma(d, scale[v], bias[v]), vf_set(0.0F)),
                             dz);
            if (g->dz != NULL)
                store_real(g->dz, i, dz, m, half);
            sum[v] = vf_add(sum[v], dz);
            dot[v] = vf_fma(dz, d, dot[v]);
        }
}

INLINE void affine_sums_of(float *sum_dz, float *sum_dz_d, const gated *g,
                           gate by, bool half)
{
    FOR_PANELS(g->cols, AFFINE_PANEL, {
        vf mu[AFFINE_PANEL];
        vf s[AFFINE_PANEL];
        vf b[AFFINE_PANEL];
        vf sum[AFFINE_PANEL];
        vf dot[AFFINE_PANEL];
        load_panel(mu, g->mean + c, vectors, m);
        set_all(sum, vectors, 0.0F);
        set_all(dot, vectors, 0.0F);
        if (by == GATE_BY_X) {
            load_panel(s, g->scale + c, vectors, m);
            load_panel(b, g->bias + c, vectors, m);
        }
        for (size_t r = 0; r < g->rows; r += LSI_COLUMN_BLOCK) {
            vf block_sum[AFFINE_PANEL];
            vf block_dot[AFFINE_PANEL];
            set_all(block_sum, vectors, 0.0F);
            set_all(block_dot, vectors, 0.0F);
            affine_sums_block(block_sum, block_dot, g, mu, s, b, r,
                              smaller(g->rows, r + LSI_COLUMN_BLOCK), c, by,
                              half, vectors, m);
            add_to(sum, block_sum, vectors);
            add_to(dot, block_dot, vectors);
        }
        for (size_t v = 0; v < vectors; v++) {
            vf_store(sum_dz + c + v * LANES, sum[v], m);
            vf_store(sum_dz_d + c + v * LANES, dot[v], m);
        }
    });
}

void LSI_SIMD(affine_columns_sums)(float *sum_dz, float *sum_dz_d,
                                   void *dz_or_null, const void *dy,
                                   const void *x, const void *y_or_null,
                                   const float *mean,
                                   const float *scale_or_null,
                                   const float *bias, size_t rows, size_t cols,
                                   bool half)
{
    const gated g = {dy,   x,    y_or_null, dz_or_null, mean, scale_or_null,
                     bias, rows, cols};
    if (half && y_or_null != NULL)
        affine_sums_of(sum_dz, sum_dz_d, &g, GATE_BY_Y, true);
    else if (half && scale_or_null != NULL)
        affine_sums_of(sum_dz, sum_dz_d, &g, GATE_BY_X, true);
    else if (half)
        affine_sums_of(sum_dz, sum_dz_d, &g, GATE_OPEN, true);
    else if (y_or_null != NULL)
        affine_sums_of(sum_dz, sum_dz_d, &g, GATE_BY_Y, false);
    else if (scale_or_null != NULL)
        affine_sums_of(sum_dz, sum_dz_d, &g, GATE_BY_X, false);
    else
        affine_sums_of(sum_dz, sum_dz_d, &g, GATE_OPEN, false);
}

/* bias is NULL if dy has no gate. */
INLINE void affine_dx_of(void *dx, const void *dy, const void *x,
                         const float *mean, const float *scale,
                         const float *bias, const float *p, const float *q,
                         size_t rows, size_t cols, bool half)
{
    FOR_PANELS(cols, NORM_PANEL, {
        vf mu[NORM_PANEL];
        vf s[NORM_PANEL];
        vf b[NORM_PANEL];
        vf by_d[NORM_PANEL];
        vf plus[NORM_PANEL];
        load_panel(mu, mean + c, vectors, m);
        load_panel(s, scale + c, vectors, m);
        load_panel(by_d, p + c, vectors, m);
        load_panel(plus, q + c, vectors, m);
        if (bias != NULL)
            load_panel(b, bias + c, vectors, m);
        for (size_t r = 0; r < rows; r++)
            for (size_t v = 0; v < vectors; v++) {
                const size_t i = r * cols + c + v * LANES;
                const vf d = vf_sub(load_real(x, i, m, half), mu[v]);
                vf dz = load_real(dy, i, m, half);
                if (bias != NULL)
                    dz =
                        vf_keep(vf_gt(vf_fma(d, s[v], b[v]), vf_set(0.0F)), dz);
                store_real(dx, i, vf_fma(s[v], dz, vf_fma(d, by_d[v], plus[v])),
                           m, half);
            }
    });
}

void LSI_SIMD(affine_columns_dx)(void *dx, const void *dy, const void *x,
                                 const float *mean, const float *scale,
                                 const float *bias_or_null, const float *p,
                                 const float *q, size_t rows, size_t cols,
                                 bool half)
{
    const float *b = bias_or_null;
    if (half && b != NULL)
        affine_dx_of(dx, dy, x, mean, scale, b, p, q, rows, cols, true);
    else if (half)
        affine_dx_of(dx, dy, x, mean, scale, NULL, p, q, rows, cols, true);
    else if (b != NULL)
        affine_dx_of(dx, dy, x, mean, scale, b, p, q, rows, cols, false);
    else
        affine_dx_of(dx, dy, x, mean, scale, NULL, p, q, rows, cols, false);
}

#endif
