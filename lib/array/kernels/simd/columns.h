/*
 * Kernels over the columns of a matrix. Sums keep a few columns in registers
 * and walk down the rows; every column is summed in the order of the
 * reference, so the results are the same bits.
 */
#ifndef LS_ARRAY_KERNELS_SIMD_COLUMNS_H
#define LS_ARRAY_KERNELS_SIMD_COLUMNS_H

#include "array/kernels/simd/words.h"

/* Vectors of columns that are summed together, as many as registers hold. */
enum { PANEL = 4, NORM_PANEL = 2 };

INLINE void set_all(vf *x, size_t vectors, float value)
{
    for (size_t v = 0; v < vectors; v++)
        x[v] = vf_set(value);
}

INLINE void add_to(vf *total, const vf *x, size_t vectors)
{
    for (size_t v = 0; v < vectors; v++)
        total[v] = vf_add(total[v], x[v]);
}

/* Element i and those after it of an array of f32 or, with half, of bf16. */
INLINE vf load_real(const void *a, size_t i, size_t m, bool half)
{
    return half ? vf_load_bf16((const uint16_t *)a + i, m)
                : vf_load((const float *)a + i, m);
}

INLINE void store_real(void *a, size_t i, vf x, size_t m, bool half)
{
    if (half)
        vf_store_bf16((uint16_t *)a + i, x, m);
    else
        vf_store((float *)a + i, x, m);
}

/* total = sums of `vectors` vectors of columns from c; m lanes if it is one. */
INLINE void sum_panel(vf *total, const void *a, size_t c, size_t rows,
                      size_t ld, size_t vectors, size_t m, bool half)
{
    set_all(total, vectors, 0.0F);
    for (size_t r = 0; r < rows;) {
        vf block[PANEL];
        set_all(block, vectors, 0.0F);
        for (const size_t end = smaller(rows, r + LSI_COLUMN_BLOCK); r < end;
             r++)
            for (size_t v = 0; v < vectors; v++)
                block[v] = vf_add(
                    block[v], load_real(a, r * ld + c + v * LANES, m, half));
        add_to(total, block, vectors);
    }
}

/* As sum_panel, of d^2 and of d = a - mean. */
INLINE void m2_panel(vf *total, vf *shift, const vf *mean, const void *a,
                     size_t c, size_t rows, size_t cols, size_t vectors,
                     size_t m, bool half)
{
    set_all(total, vectors, 0.0F);
    set_all(shift, vectors, 0.0F);
    for (size_t r = 0; r < rows;) {
        vf block[PANEL];
        vf block_d[PANEL];
        set_all(block, vectors, 0.0F);
        set_all(block_d, vectors, 0.0F);
        for (const size_t end = smaller(rows, r + LSI_COLUMN_BLOCK); r < end;
             r++)
            for (size_t v = 0; v < vectors; v++) {
                const vf x = load_real(a, r * cols + c + v * LANES, m, half);
                const vf d = vf_sub(x, mean[v]);
                block[v] = vf_fma(d, d, block[v]);
                block_d[v] = vf_add(block_d[v], d);
            }
        add_to(total, block, vectors);
        add_to(shift, block_d, vectors);
    }
}

/*
 * Runs the body on all columns, `panel` vectors at a time while there are that
 * many: `c` is the first column, `vectors` their number and `m` how many lanes
 * of each there are.
 */
#define FOR_PANELS(cols, panel, ...)                                           \
    do {                                                                       \
        size_t c = 0;                                                          \
        for (; c + (panel)*LANES <= (cols); c += (panel)*LANES) {              \
            const size_t vectors = (panel);                                    \
            const size_t m = LANES;                                            \
            __VA_ARGS__                                                        \
        }                                                                      \
        for (; c < (cols); c += LANES) {                                       \
            const size_t vectors = 1;                                          \
            const size_t m = smaller((cols)-c, LANES);                         \
            __VA_ARGS__                                                        \
        }                                                                      \
    } while (0)

void LSI_SIMD(column_sum)(float *out, const float *a, size_t rows, size_t cols,
                          size_t ld, bool accumulate)
{
    FOR_PANELS(cols, PANEL, {
        vf total[PANEL];
        sum_panel(total, a, c, rows, ld, vectors, m, false);
        for (size_t v = 0; v < vectors; v++) {
            float *to = out + c + v * LANES;
            if (accumulate)
                total[v] = vf_add(vf_load(to, m), total[v]);
            vf_store(to, total[v], m);
        }
    });
}

INLINE void moments_of(float *mean, float *m2, const void *a, size_t rows,
                       size_t cols, bool half)
{
    const vf n = vf_set(rows > 0 ? (float)rows : 1.0F);
    FOR_PANELS(cols, PANEL, {
        vf mu[PANEL];
        vf total[PANEL];
        vf shift[PANEL];
        sum_panel(mu, a, c, rows, cols, vectors, m, half);
        for (size_t v = 0; v < vectors; v++)
            mu[v] = vf_div(mu[v], n);
        m2_panel(total, shift, mu, a, c, rows, cols, vectors, m, half);
        for (size_t v = 0; v < vectors; v++) {
            const vf missing = vf_div(shift[v], n);
            total[v] = vf_fnma(shift[v], missing, total[v]);
            vf_store(mean + c + v * LANES, vf_add(mu[v], missing), m);
            vf_store(m2 + c + v * LANES, vf_max(vf_set(0.0F), total[v]), m);
        }
    });
}

void LSI_SIMD(column_moments)(float *mean, float *m2, const float *a,
                              size_t rows, size_t cols)
{
    moments_of(mean, m2, a, rows, cols, false);
}

void LSI_SIMD(column_moments_bf16)(float *mean, float *m2, const uint16_t *a,
                                   size_t rows, size_t cols)
{
    moments_of(mean, m2, a, rows, cols, true);
}

/* The two sums of some columns; the totals are those of the blocks before. */
typedef struct norm_sums {
    vf dy[NORM_PANEL], dy_xhat[NORM_PANEL];
} norm_sums;

INLINE norm_sums norm_block(const float *dy, const float *x, const vf *mean,
                            const vf *inv_std, size_t rows, size_t cols,
                            size_t vectors, size_t m)
{
    norm_sums sums;
    set_all(sums.dy, vectors, 0.0F);
    set_all(sums.dy_xhat, vectors, 0.0F);
    for (size_t r = 0; r < rows; r++)
        for (size_t v = 0; v < vectors; v++) {
            const size_t at = r * cols + v * LANES;
            const vf g = vf_load(dy + at, m);
            const vf d = vf_sub(vf_load(x + at, m), mean[v]);
            const vf x_hat = vf_mul(d, inv_std[v]);
            sums.dy[v] = vf_add(sums.dy[v], g);
            sums.dy_xhat[v] = vf_fma(g, x_hat, sums.dy_xhat[v]);
        }
    return sums;
}

void LSI_SIMD(batch_norm_sums)(float *sum_dy, float *sum_dy_xhat,
                               const float *dy, const float *x,
                               const float *mean, const float *inv_std,
                               size_t rows, size_t cols)
{
    FOR_PANELS(cols, NORM_PANEL, {
        norm_sums total;
        vf mu[NORM_PANEL];
        vf s[NORM_PANEL];
        set_all(total.dy, vectors, 0.0F);
        set_all(total.dy_xhat, vectors, 0.0F);
        for (size_t v = 0; v < vectors; v++) {
            mu[v] = vf_load(mean + c + v * LANES, m);
            s[v] = vf_load(inv_std + c + v * LANES, m);
        }
        for (size_t r = 0; r < rows; r += LSI_COLUMN_BLOCK) {
            const size_t at = r * cols + c;
            const norm_sums block = norm_block(
                dy + at, x + at, mu, s, smaller(rows - r, LSI_COLUMN_BLOCK),
                cols, vectors, m);
            add_to(total.dy, block.dy, vectors);
            add_to(total.dy_xhat, block.dy_xhat, vectors);
        }
        for (size_t v = 0; v < vectors; v++) {
            vf_store(sum_dy + c + v * LANES, total.dy[v], m);
            vf_store(sum_dy_xhat + c + v * LANES, total.dy_xhat[v], m);
        }
    });
}

INLINE vf load_or_all(const float *p_or_null, size_t i, size_t m, float all)
{
    return p_or_null ? vf_load(p_or_null + i, m) : vf_set(all);
}

void LSI_SIMD(normalize_columns)(float *y, const float *a, const float *mean,
                                 const float *inv_std,
                                 const float *weight_or_null,
                                 const float *bias_or_null, size_t rows,
                                 size_t cols)
{
    for (size_t r = 0; r < rows; r++) {
        const float *from = a + r * cols;
        float *to = y + r * cols;
        FOR_LANES(cols, {
            const vf w = load_or_all(weight_or_null, i, m, 1.0F);
            const vf b = load_or_all(bias_or_null, i, m, 0.0F);
            const vf d = vf_sub(vf_load(from + i, m), vf_load(mean + i, m));
            const vf x_hat = vf_mul(d, vf_load(inv_std + i, m));
            vf_store(to + i, vf_fma(x_hat, w, b), m);
        });
    }
}

void LSI_SIMD(batch_norm_dx)(float *dx, const float *dy, const float *x,
                             const float *mean, const float *inv_std,
                             const float *weight_or_null, const float *a,
                             const float *b, size_t rows, size_t cols,
                             bool accumulate)
{
    for (size_t r = 0; r < rows; r++) {
        const size_t row = r * cols;
        FOR_LANES(cols, {
            const vf s = vf_load(inv_std + i, m);
            const vf w = load_or_all(weight_or_null, i, m, 1.0F);
            const vf d = vf_sub(vf_load(x + row + i, m), vf_load(mean + i, m));
            const vf g = vf_sub(vf_load(dy + row + i, m), vf_load(a + i, m));
            const vf inner = vf_fnma(vf_mul(d, s), vf_load(b + i, m), g);
            vf out = vf_mul(vf_mul(s, w), inner);
            if (accumulate)
                out = vf_add(vf_load(dx + row + i, m), out);
            vf_store(dx + row + i, out, m);
        });
    }
}

#endif
