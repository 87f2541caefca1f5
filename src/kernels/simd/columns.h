/*
 * Kernels over the columns of a matrix. Sums keep a few columns in registers
 * and walk down the rows; every column is summed in the order of the
 * reference, so the results are the same bits.
 */
enum { PANEL = 4 }; /* vectors of columns that are summed together */

INLINE size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

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

/* total = sums of `vectors` vectors of columns; m lanes if it is one. */
INLINE void sum_panel(vf *total, const float *a, size_t rows, size_t cols,
                      size_t vectors, size_t m)
{
    set_all(total, vectors, 0.0F);
    for (size_t r = 0; r < rows;) {
        vf block[PANEL];
        set_all(block, vectors, 0.0F);
        for (const size_t end = smaller(rows, r + LSI_COLUMN_BLOCK); r < end;
             r++)
            for (size_t v = 0; v < vectors; v++)
                block[v] =
                    vf_add(block[v], vf_load(a + r * cols + v * LANES, m));
        add_to(total, block, vectors);
    }
}

/* As sum_panel, of (a - mean)^2. */
INLINE void m2_panel(vf *total, const vf *mean, const float *a, size_t rows,
                     size_t cols, size_t vectors, size_t m)
{
    set_all(total, vectors, 0.0F);
    for (size_t r = 0; r < rows;) {
        vf block[PANEL];
        set_all(block, vectors, 0.0F);
        for (const size_t end = smaller(rows, r + LSI_COLUMN_BLOCK); r < end;
             r++)
            for (size_t v = 0; v < vectors; v++) {
                const vf x = vf_load(a + r * cols + v * LANES, m);
                const vf d = vf_sub(x, mean[v]);
                block[v] = vf_fma(d, d, block[v]);
            }
        add_to(total, block, vectors);
    }
}

/*
 * Runs PANEL_CALL on all columns: `c` is the first, `vectors` how many vectors
 * and `m` how many lanes of the last.
 */
#define FOR_PANELS(cols, ...)                                                  \
    do {                                                                       \
        size_t c = 0;                                                          \
        for (; c + PANEL * LANES <= (cols); c += PANEL * LANES) {              \
            const size_t vectors = PANEL;                                      \
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
                          bool accumulate)
{
    FOR_PANELS(cols, {
        vf total[PANEL];
        sum_panel(total, a + c, rows, cols, vectors, m);
        for (size_t v = 0; v < vectors; v++) {
            float *to = out + c + v * LANES;
            if (accumulate)
                total[v] = vf_add(vf_load(to, m), total[v]);
            vf_store(to, total[v], m);
        }
    });
}

void LSI_SIMD(column_moments)(float *mean, float *m2, const float *a,
                              size_t rows, size_t cols)
{
    const vf n = vf_set(rows > 0 ? (float)rows : 1.0F);
    FOR_PANELS(cols, {
        vf mu[PANEL];
        vf total[PANEL];
        sum_panel(mu, a + c, rows, cols, vectors, m);
        for (size_t v = 0; v < vectors; v++)
            mu[v] = vf_div(mu[v], n);
        m2_panel(total, mu, a + c, rows, cols, vectors, m);
        for (size_t v = 0; v < vectors; v++) {
            vf_store(mean + c + v * LANES, mu[v], m);
            vf_store(m2 + c + v * LANES, total[v], m);
        }
    });
}

void LSI_SIMD(batch_norm_sums)(float *sum_dy, float *sum_dy_xhat,
                               const float *dy, const float *x,
                               const float *mean, const float *inv_std,
                               size_t rows, size_t cols)
{
    FOR_LANES(cols, {
        const vf mu = vf_load(mean + i, m);
        const vf s = vf_load(inv_std + i, m);
        vf total = vf_set(0.0F);
        vf total_xhat = vf_set(0.0F);
        for (size_t r = 0; r < rows;) {
            vf block = vf_set(0.0F);
            vf block_xhat = vf_set(0.0F);
            for (const size_t end = smaller(rows, r + LSI_COLUMN_BLOCK);
                 r < end; r++) {
                const vf g = vf_load(dy + r * cols + i, m);
                const vf d = vf_sub(vf_load(x + r * cols + i, m), mu);
                block = vf_add(block, g);
                block_xhat = vf_fma(g, vf_mul(d, s), block_xhat);
            }
            total = vf_add(total, block);
            total_xhat = vf_add(total_xhat, block_xhat);
        }
        vf_store(sum_dy + i, total, m);
        vf_store(sum_dy_xhat + i, total_xhat, m);
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
