/*
 * Columns that are shifted and scaled, and the gradients of that. What belongs
 * to a panel of columns stays in registers all the way down the rows; sums are
 * in the order of the reference.
 */
#ifndef LS_KERNELS_SIMD_AFFINE_H
#define LS_KERNELS_SIMD_AFFINE_H

#include "kernels/simd/columns.h"

enum { AFFINE_PANEL = 4 };

INLINE void load_panel(vf *out, const float *from, size_t vectors, size_t m)
{
    for (size_t v = 0; v < vectors; v++)
        out[v] = vf_load(from + v * LANES, m);
}

INLINE void affine_panel(float *y, const float *x, const float *residual,
                         const vf *mean, const vf *scale, const vf *bias,
                         size_t rows, size_t cols, bool relu, size_t vectors,
                         size_t m)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t v = 0; v < vectors; v++) {
            const size_t i = r * cols + v * LANES;
            const vf d = vf_sub(vf_load(x + i, m), mean[v]);
            vf z = vf_fma(d, scale[v], bias[v]);
            if (residual != NULL)
                z = vf_add(z, vf_load(residual + i, m));
            if (relu)
                z = vf_max(vf_set(0.0F), z);
            vf_store(y + i, z, m);
        }
}

void LSI_SIMD(affine_columns)(float *y, const float *x,
                              const float *residual_or_null, const float *mean,
                              const float *scale, const float *bias,
                              size_t rows, size_t cols, bool relu)
{
    FOR_PANELS(cols, AFFINE_PANEL, {
        vf mu[AFFINE_PANEL];
        vf s[AFFINE_PANEL];
        vf b[AFFINE_PANEL];
        load_panel(mu, mean + c, vectors, m);
        load_panel(s, scale + c, vectors, m);
        load_panel(b, bias + c, vectors, m);
        const float *residual =
            residual_or_null != NULL ? residual_or_null + c : NULL;
        if (residual != NULL && relu)
            affine_panel(y + c, x + c, residual, mu, s, b, rows, cols, true,
                         vectors, m);
        else if (residual != NULL)
            affine_panel(y + c, x + c, residual, mu, s, b, rows, cols, false,
                         vectors, m);
        else
            affine_panel(y + c, x + c, NULL, mu, s, b, rows, cols, relu,
                         vectors, m);
    });
}

/* How dz follows from dy. */
typedef enum gate { GATE_OPEN, GATE_BY_Y, GATE_BY_X } gate;

typedef struct gated {
    const float *dy, *x, *y; /* y if the gate is by it */
    float *dz;               /* or NULL */
} gated;

INLINE void affine_sums_panel(vf *sum, vf *dot, const gated *g, const vf *mean,
                              const vf *scale, const vf *bias, size_t rows,
                              size_t cols, gate by, bool write, size_t vectors,
                              size_t m)
{
    for (size_t r = 0; r < rows;) {
        vf block_sum[AFFINE_PANEL];
        vf block_dot[AFFINE_PANEL];
        set_all(block_sum, vectors, 0.0F);
        set_all(block_dot, vectors, 0.0F);
        for (const size_t end = smaller(rows, r + LSI_COLUMN_BLOCK); r < end;
             r++)
            for (size_t v = 0; v < vectors; v++) {
                const size_t i = r * cols + v * LANES;
                const vf d = vf_sub(vf_load(g->x + i, m), mean[v]);
                vf dz = vf_load(g->dy + i, m);
                if (by == GATE_BY_Y)
                    dz = vf_keep(vf_gt(vf_load(g->y + i, m), vf_set(0.0F)), dz);
                else if (by == GATE_BY_X)
                    dz = vf_keep(
                        vf_gt(vf_fma(d, scale[v], bias[v]), vf_set(0.0F)), dz);
                if (write)
                    vf_store(g->dz + i, dz, m);
                block_sum[v] = vf_add(block_sum[v], dz);
                block_dot[v] = vf_fma(dz, d, block_dot[v]);
            }
        add_to(sum, block_sum, vectors);
        add_to(dot, block_dot, vectors);
    }
}

void LSI_SIMD(affine_columns_sums)(float *sum_dz, float *sum_dz_d,
                                   float *dz_or_null, const float *dy,
                                   const float *x, const float *y_or_null,
                                   const float *mean,
                                   const float *scale_or_null,
                                   const float *bias, size_t rows, size_t cols)
{
    const bool write = dz_or_null != NULL;
    FOR_PANELS(cols, AFFINE_PANEL, {
        vf mu[AFFINE_PANEL];
        vf s[AFFINE_PANEL];
        vf b[AFFINE_PANEL];
        vf sum[AFFINE_PANEL];
        vf dot[AFFINE_PANEL];
        const gated g = {dy + c, x + c,
                         y_or_null != NULL ? y_or_null + c : NULL,
                         write ? dz_or_null + c : NULL};
        load_panel(mu, mean + c, vectors, m);
        set_all(sum, vectors, 0.0F);
        set_all(dot, vectors, 0.0F);
        if (scale_or_null != NULL) {
            load_panel(s, scale_or_null + c, vectors, m);
            load_panel(b, bias + c, vectors, m);
        }
        if (y_or_null != NULL)
            affine_sums_panel(sum, dot, &g, mu, s, b, rows, cols, GATE_BY_Y,
                              write, vectors, m);
        else if (scale_or_null != NULL)
            affine_sums_panel(sum, dot, &g, mu, s, b, rows, cols, GATE_BY_X,
                              write, vectors, m);
        else
            affine_sums_panel(sum, dot, &g, mu, s, b, rows, cols, GATE_OPEN,
                              write, vectors, m);
        for (size_t v = 0; v < vectors; v++) {
            vf_store(sum_dz + c + v * LANES, sum[v], m);
            vf_store(sum_dz_d + c + v * LANES, dot[v], m);
        }
    });
}

/* The parameters of affine_columns_dx for some columns. */
typedef struct affine_dx {
    vf mean[NORM_PANEL], scale[NORM_PANEL], bias[NORM_PANEL], p[NORM_PANEL],
        q[NORM_PANEL];
} affine_dx;

INLINE void affine_dx_panel(float *dx, const float *dy, const float *x,
                            const affine_dx *k, size_t rows, size_t cols,
                            bool gated_by_x, bool accumulate, size_t vectors,
                            size_t m)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t v = 0; v < vectors; v++) {
            const size_t i = r * cols + v * LANES;
            const vf d = vf_sub(vf_load(x + i, m), k->mean[v]);
            vf dz = vf_load(dy + i, m);
            if (gated_by_x)
                dz = vf_keep(
                    vf_gt(vf_fma(d, k->scale[v], k->bias[v]), vf_set(0.0F)),
                    dz);
            vf g = vf_fma(k->scale[v], dz, vf_fma(d, k->p[v], k->q[v]));
            if (accumulate)
                g = vf_add(vf_load(dx + i, m), g);
            vf_store(dx + i, g, m);
        }
}

void LSI_SIMD(affine_columns_dx)(float *dx, const float *dy, const float *x,
                                 const float *mean, const float *scale,
                                 const float *bias_or_null, const float *p,
                                 const float *q, size_t rows, size_t cols,
                                 bool accumulate)
{
    FOR_PANELS(cols, NORM_PANEL, {
        affine_dx k;
        load_panel(k.mean, mean + c, vectors, m);
        load_panel(k.scale, scale + c, vectors, m);
        load_panel(k.p, p + c, vectors, m);
        load_panel(k.q, q + c, vectors, m);
        if (bias_or_null != NULL)
            load_panel(k.bias, bias_or_null + c, vectors, m);
        if (bias_or_null != NULL)
            affine_dx_panel(dx + c, dy + c, x + c, &k, rows, cols, true,
                            accumulate, vectors, m);
        else
            affine_dx_panel(dx + c, dy + c, x + c, &k, rows, cols, false,
                            accumulate, vectors, m);
    });
}

#endif
