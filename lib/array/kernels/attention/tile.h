/*
 * Register-blocked products and the exponential, the two things that attention
 * spends its time on. Written once in the words of a vector.h and compiled once
 * for each instruction set, by <name>/attention.c. A file that includes no
 * vector.h gets that of plain C.
 *
 * Every product is C (rows, lanes) = A (rows, depth) B (depth, lanes) where an
 * element of A is broadcast against vectors of B. For bf16 an element of A and
 * B is a word, and depth counts words.
 */
#ifndef LS_ARRAY_KERNELS_ATTENTION_TILE_H
#define LS_ARRAY_KERNELS_ATTENTION_TILE_H

#include <float.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "array/kernels/attention/exp2.h"

/* Whether products of bf16 go by AMX's tiles. */
#ifndef PRODUCT_TILES
#    define PRODUCT_TILES 0
#endif

#define UNROLL _Pragma("GCC unroll 16")

/*
 * Lanes of a panel, and rows of a product that is separate because it sees
 * other keys: as many as a product keeps in registers, but in portable/wide.h.
 */
#ifndef PANEL_LANES
#    define PANEL_LANES (PRODUCT_VECS * LANES)
#    define GROUP_ROWS  PRODUCT_ROWS
#endif
enum { PANEL = PANEL_LANES };

/* 32 bits of anything, at any address that a bf16 may have. */
typedef float word __attribute__((aligned(2), may_alias));

typedef enum result_mode {
    SET,      /* C = AB */
    SET_MAX,  /* C = AB; extra[lane] = max(extra[lane], column of C) */
    ADD,      /* C += AB */
    SCALE_ADD /* C = C * extra[row] + AB */
} result_mode;

typedef struct product {
    float *c;
    const word *a;
    const float *b;
    size_t ldc, lda, ldb;
    size_t rows, lanes, depth; /* lanes: a multiple of LANES */
    float *extra;
} product;

/*
 * The constants of one instance of a product. With a_columns, A is stored with
 * its rows side by side, a[depth * lda + row], else a[row * lda + depth].
 */
typedef struct product_kind {
    result_mode mode;
    bool a_columns, half;
} product_kind;

/* LANES vectors as columns. */
INLINE void store_columns(float *dst, size_t ld, vf rows[LANES])
{
    vf_transpose(rows);
    UNROLL
    for (size_t i = 0; i < LANES; i++)
        vf_store(dst + i * ld, rows[i], LANES);
}

/*
 * Rows of A that are apart: four share a pointer, so that the addresses of all
 * fit in registers. The compiler would give each row a separate offset, and
 * load the offsets from the stack in the innermost loop.
 */
typedef struct row_pointers {
    const char *four[(PRODUCT_ROWS + 3) / 4];
    size_t one, three; /* bytes to the next row, to the third after it */
} row_pointers;

INLINE void hide(const char **pointer)
{
#if defined(__GNUC__)
    __asm__("" : "+r"(*pointer));
#else
    (void)pointer;
#endif
}

INLINE row_pointers point_to_rows(const word *a, size_t step, const int rows)
{
    row_pointers p = {.one = step * sizeof(word),
                      .three = 3 * sizeof(word) * step};
    UNROLL
    for (int r = 0; r < rows; r += 4) {
        p.four[r / 4] = (const char *)(a + (size_t)r * step);
        hide(&p.four[r / 4]);
    }
    return p;
}

INLINE word row_word(const row_pointers *p, const int row)
{
    const char *base = p->four[row / 4];
    const size_t at[] = {0, p->one, 2 * p->one, p->three};
    return *(const word *)(const void *)(base + at[row % 4]);
}

INLINE void multiply(vf sum[PRODUCT_ROWS][PRODUCT_VECS], const product *p,
                     size_t row, size_t lane, const int rows, const int vecs,
                     const product_kind kind)
{
    const word *columns = p->a + row;
    row_pointers apart =
        point_to_rows(p->a + row * p->lda, kind.a_columns ? 0 : p->lda, rows);
    const float *b = p->b + lane;
    for (size_t left = p->depth; left > 0; left--) {
        vf bs[PRODUCT_VECS];
        UNROLL
        for (int v = 0; v < vecs; v++)
            bs[v] = vf_load(b + v * LANES, LANES);
        UNROLL
        for (int r = 0; r < rows; r++) {
            const vf as =
                vf_set(kind.a_columns ? columns[r] : row_word(&apart, r));
            UNROLL
            for (int v = 0; v < vecs; v++)
                sum[r][v] = kind.half ? vf_dot_pairs(sum[r][v], as, bs[v])
                                      : vf_fma(as, bs[v], sum[r][v]);
        }
        columns += p->lda;
        UNROLL
        for (int r = 0; r < rows; r += 4)
            apart.four[r / 4] += sizeof(word);
        b += p->ldb;
    }
}

INLINE void put(const product *p, size_t row, size_t lane, const vf sum,
                const result_mode mode)
{
    float *c = p->c + row * p->ldc + lane;
    if (mode == ADD)
        vf_store(c, vf_add(vf_load(c, LANES), sum), LANES);
    else if (mode == SCALE_ADD)
        vf_store(c, vf_fma(vf_load(c, LANES), vf_set(p->extra[row]), sum),
                 LANES);
    else
        vf_store(c, sum, LANES);
}

/* `rows` x `vecs` of C. */
INLINE void block(const product *p, size_t row, size_t lane, const int rows,
                  const int vecs, const product_kind kind)
{
    vf sum[PRODUCT_ROWS][PRODUCT_VECS];
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < vecs; v++)
            sum[r][v] = vf_set(0.0F);
    }
    multiply(sum, p, row, lane, rows, vecs, kind);
    UNROLL
    for (int v = 0; v < vecs; v++) {
        const size_t at = lane + (size_t)v * LANES;
        UNROLL
        for (int r = 0; r < rows; r++)
            put(p, row + (size_t)r, at, sum[r][v], kind.mode);
        if (kind.mode == SET_MAX) {
            vf most = vf_load(p->extra + at, LANES);
            UNROLL
            for (int r = 0; r < rows; r++)
                most = vf_max(most, sum[r][v]);
            vf_store(p->extra + at, most, LANES);
        }
    }
}

/*
 * All rows of `vecs` vectors. Leftover rows go in powers of two. But after
 * blocks of 6 rows, 2 rows would have 4 sums in flight, and two units with a
 * latency of 4 cycles need 8. So the last 8 rows go as 4 + 4.
 */
enum { TWO_FOURS = PRODUCT_ROWS == 6 ? 8 : 0 };

INLINE void panel(const product *p, size_t lane, const int vecs,
                  const product_kind kind)
{
    size_t row = 0;
    for (; row + PRODUCT_ROWS <= p->rows && p->rows - row != TWO_FOURS;
         row += PRODUCT_ROWS)
        block(p, row, lane, PRODUCT_ROWS, vecs, kind);
    for (; PRODUCT_ROWS > 4 && row + 4 <= p->rows; row += 4)
        block(p, row, lane, 4, vecs, kind);
    if (row + 2 <= p->rows) {
        block(p, row, lane, 2, vecs, kind);
        row += 2;
    }
    if (row < p->rows)
        block(p, row, lane, 1, vecs, kind);
}

INLINE void multiply_vectors(const product *p, const product_kind kind)
{
    size_t lane = 0;
    const size_t step = PRODUCT_VECS * LANES;
    for (; lane + step <= p->lanes; lane += step)
        panel(p, lane, PRODUCT_VECS, kind);
    for (; lane < p->lanes; lane += LANES)
        panel(p, lane, 1, kind);
}

INLINE size_t group_rows(const bool half)
{
    return PRODUCT_TILES && half ? 16 : GROUP_ROWS;
}

#if PRODUCT_TILES
#    include "array/kernels/attention/tile_amx.h"

INLINE void multiply_all(const product *p, const product_kind kind)
{
    product tiles = *p, rest = *p;
    tiles.rows = rows_of_tiles(p, kind);
    rest.rows -= tiles.rows;
    rest.a += tiles.rows * (kind.a_columns ? 1 : p->lda);
    rest.c += tiles.rows * p->ldc;
    if (kind.mode == SCALE_ADD)
        rest.extra += tiles.rows;
    if (tiles.rows > 0)
        multiply_tiles(&tiles, kind);
    if (rest.rows > 0)
        multiply_vectors(&rest, kind);
}

#else
typedef int tile_config;

INLINE void begin_tiles(tile_config *before)
{
    *before = 0;
}

INLINE void end_tiles(const tile_config *before)
{
    (void)before;
}

INLINE void multiply_all(const product *p, const product_kind kind)
{
    multiply_vectors(p, kind);
}
#endif

static inline size_t round_up(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

static inline size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

#endif
