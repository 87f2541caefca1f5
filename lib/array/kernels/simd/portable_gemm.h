/*
 * lsi_portable_ops of a level, in its words. PRODUCT_ROWS x PRODUCT_VECS
 * vectors of sums are kept in registers.
 */
#ifndef LS_ARRAY_KERNELS_SIMD_PORTABLE_GEMM_H
#define LS_ARRAY_KERNELS_SIMD_PORTABLE_GEMM_H

#include "array/kernels/portable.h"
#include "array/kernels/portable_gemm.h"
#include "fold/simd/words.h"

/* Clang ignores the pragma of GCC, and would keep the sums in memory. */
#ifdef __clang__
#    define UNROLL _Pragma("clang loop unroll(full)")
#else
#    define UNROLL _Pragma("GCC unroll 16")
#endif

enum { LINE = 16 /* floats of a line of the cache */ };

_Static_assert(LANES <= LSI_PORTABLE_SLACK, "a vector fits in the slack");

/* ---- packing ------------------------------------------------------------- */

/*
 * A vector may write past the lanes of its term. The next term, packed later,
 * repairs it.
 */
INLINE void pack_rows(float *to, const lsi_strip *s, size_t width)
{
    for (size_t t = 0; t < s->terms; t++) {
        const float *from = s->data + t * s->ld;
        size_t i = 0;
        __builtin_prefetch(from + 2 * LINE, 0, 2); /* for the next panel */
        for (; i + LANES <= s->lanes; i += LANES)
            vf_store(to + i, vf_load(from + i, LANES), LANES);
        if (i < s->lanes) {
            vf_store(to + i, vf_load(from + i, s->lanes - i), LANES);
            i += LANES;
        }
        for (; i < width; i += LANES)
            vf_store(to + i, vf_set(0.0F), LANES);
        to += width;
    }
}

/* `lanes` and `terms` of a square, at most LANES each; `lanes` may be 0. */
INLINE void pack_square(float *to, const float *from, size_t ld, size_t lanes,
                        size_t terms, size_t width)
{
    vf rows[LANES];
    UNROLL
    for (size_t l = 0; l < LANES; l++)
        rows[l] = l < lanes ? vf_load(from + l * ld, terms) : vf_set(0.0F);
    vf_transpose(rows);
    UNROLL
    for (size_t t = 0; t < LANES; t++)
        if (t < terms)
            vf_store(to + t * width, rows[t], LANES);
}

/* The last lanes first: vectors may write past them, into those of a term that
 * follows. */
INLINE void pack_columns(float *to, const lsi_strip *s, size_t width)
{
    size_t at = (width + LANES - 1) / LANES * LANES;
    while (at > 0) {
        at -= LANES;
        const size_t rest = s->lanes > at ? s->lanes - at : 0;
        const size_t lanes = rest < LANES ? rest : LANES;
        const float *from = s->data + (lanes > 0 ? at * s->ld : 0);
        size_t t = 0;
        for (; t + LANES <= s->terms; t += LANES) {
            if (lanes == LANES)
                pack_square(to + t * width + at, from + t, s->ld, LANES, LANES,
                            width);
            else if (lanes == PRODUCT_ROWS % LANES)
                pack_square(to + t * width + at, from + t, s->ld,
                            PRODUCT_ROWS % LANES, LANES, width);
            else
                pack_square(to + t * width + at, from + t, s->ld, lanes, LANES,
                            width);
        }
        if (t < s->terms)
            pack_square(to + t * width + at, from + t, s->ld, lanes,
                        s->terms - t, width);
    }
}

static void pack(float *to, const lsi_strip *strip, size_t width)
{
    if (strip->lanes_dense)
        pack_rows(to, strip, width);
    else
        pack_columns(to, strip, width);
}

/* ---- multiplying --------------------------------------------------------- */

/* The rows and columns of C that are multiplied next. */
typedef struct tile {
    const float *a;
    size_t a_step; /* floats from term to term */
    size_t row, lane;
} tile;

/* sum += rows of `from`, the first lane of a tile; with ld 0, of one row. */
INLINE void add_rows(vf sum[PRODUCT_ROWS][PRODUCT_VECS], const float *from,
                     size_t ld, const int rows, const int vecs, size_t last)
{
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < vecs; v++)
            sum[r][v] = vf_add(
                sum[r][v], vf_load(from + (size_t)r * ld + (size_t)v * LANES,
                                   v == vecs - 1 ? last : LANES));
    }
}

/* The last vector of a row has `last` lanes. */
INLINE void put(const lsi_portable_product *p, const tile *at,
                vf sum[PRODUCT_ROWS][PRODUCT_VECS], const int rows,
                const int vecs, size_t last)
{
    float *c = p->c + at->row * p->ldc + at->lane;
    if (p->totals != NULL)
        add_rows(sum, p->totals + at->row * p->ld_totals + at->lane,
                 p->ld_totals, rows, vecs, last);
    if (p->bias_or_null != NULL)
        add_rows(sum, p->bias_or_null + at->lane, 0, rows, vecs, last);
    if (p->accumulate)
        add_rows(sum, c, p->ldc, rows, vecs, last);
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < vecs; v++)
            vf_store(c + (size_t)r * p->ldc + (size_t)v * LANES, sum[r][v],
                     v == vecs - 1 ? last : LANES);
    }
}

INLINE void multiply_tile(const lsi_portable_product *p, const tile *at,
                          const int rows, const int vecs)
{
    vf sum[PRODUCT_ROWS][PRODUCT_VECS];
    const float *a = at->a, *b = p->b + at->lane;
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < vecs; v++)
            sum[r][v] = vf_set(0.0F);
        __builtin_prefetch(p->c + (at->row + (size_t)r) * p->ldc + at->lane);
        if (vecs > 1)
            __builtin_prefetch(p->c + (at->row + (size_t)r) * p->ldc +
                               at->lane + LINE);
    }
    for (size_t left = p->terms; left > 0; left--) {
        vf bs[PRODUCT_VECS];
        UNROLL
        for (int v = 0; v < vecs; v++)
            bs[v] = vf_load(b + (size_t)v * LANES, LANES);
        UNROLL
        for (int r = 0; r < rows; r++) {
            const vf as = vf_set(a[r]);
            UNROLL
            for (int v = 0; v < vecs; v++)
                sum[r][v] = vf_fma(as, bs[v], sum[r][v]);
        }
        a += at->a_step;
        b += p->ld_b;
    }
    const size_t before = at->lane + (size_t)(vecs - 1) * LANES;
    if (p->cols - before >= LANES)
        put(p, at, sum, rows, vecs, LANES);
    else
        put(p, at, sum, rows, vecs, p->cols - before);
}

/* All columns of some rows. */
INLINE void multiply_rows(const lsi_portable_product *p, tile *at,
                          const int rows)
{
    at->lane = 0;
    if (p->cols > (PRODUCT_VECS - 1) * LANES)
        multiply_tile(p, at, rows, PRODUCT_VECS);
    else
        for (; at->lane < p->cols; at->lane += LANES)
            multiply_tile(p, at, rows, 1);
    at->a += rows;
    at->row += (size_t)rows;
}

/* The lines that fall to panel `at` of all. */
INLINE void fetch_rows(const lsi_fetch *f, size_t at, size_t all)
{
    const size_t end = f->rows * (at + 1) / all;
    for (size_t i = f->rows * at / all; i < end; i++)
        for (size_t line = 0; line < f->lines; line++)
            __builtin_prefetch(f->data + i * f->ld + line * LINE, 0, 2);
}

static void multiply(const lsi_portable_product *p)
{
    const size_t panels = (p->rows + PRODUCT_ROWS - 1) / PRODUCT_ROWS;
    tile at = {.a_step = PRODUCT_ROWS, .row = 0};
    for (size_t panel = 0; panel < panels; panel++) {
        size_t rest = p->rows - at.row;
        fetch_rows(&p->fetch, panel, panels);
        at.a = p->a + at.row * p->terms;
        if (rest >= PRODUCT_ROWS) {
            multiply_rows(p, &at, PRODUCT_ROWS);
            continue;
        }
        at.a_step = rest;
        if (rest & 4)
            multiply_rows(p, &at, 4);
        if (rest & 2)
            multiply_rows(p, &at, 2);
        if (rest & 1)
            multiply_rows(p, &at, 1);
    }
}

#define PORTABLE_OPS(chains)                                                   \
    {                                                                          \
        .rows = PRODUCT_ROWS, .lanes = PRODUCT_VECS * LANES, .pack = pack,     \
        .multiply = multiply, .row_chains = (chains)                           \
    }

#endif
