/*
 * Register-blocked products and the exponential, the two things that attention
 * spends its time on. Written once over a small vector vocabulary (vec_*.h) and
 * compiled once for each instruction set, by <name>/attention.c.
 *
 * The vocabulary: vec is V_LANES floats; v_load, v_store (any alignment),
 * v_set1, v_fma (ab + c), v_fms (ab - c), v_mul, v_add, v_sub, v_max (the
 * second argument if either is NaN) do what they say. A vec may also hold
 * words: 32 bits that are two bf16, the first in the low half. v_dot_pairs adds
 * the products of two vecs of words to a vec of floats; v_pair rounds and joins
 * two vecs of floats to words, v_pair_bits two rows of bf16; v_load_bf16 and
 * v_store_bf16 convert. v_fill_low replaces the first n lanes. v_add_exponent
 * adds the integer in the low bits of n to the exponent of x. v_transpose
 * writes V_LANES vecs as columns. A file that includes no vocabulary gets that
 * of plain C.
 *
 * Every product is C (rows, lanes) = A (rows, depth) B (depth, lanes) where an
 * element of A is broadcast against vectors of B. For bf16 an element of A and
 * B is a word, and depth counts words.
 */
#ifndef LS_KERNELS_ATTENTION_TILE_H
#define LS_KERNELS_ATTENTION_TILE_H

#include <float.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifndef V_LANES
#    include "kernels/attention/vec_ref.h"
#endif

/* Whether products of bf16 go by AMX's tiles. */
#ifndef V_TILES
#    define V_TILES 0
#endif

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

#define LOG2E 1.44269504088896341F

/* Lanes of a panel: as many as a product keeps in registers. */
enum { PANEL = V_VECS * V_LANES };

/* 32 bits of anything, at any address where a bf16 may lie. */
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
    size_t rows, lanes, depth; /* lanes: a multiple of V_LANES */
    float *extra;
} product;

/*
 * What is constant in one instance of a product. a_columns: A lies with its
 * rows side by side, a[depth * lda + row], else a[row * lda + depth].
 */
typedef struct product_kind {
    result_mode mode;
    bool a_columns, half;
} product_kind;

/*
 * Rows of A that lie apart: four share a pointer, so that the addresses of all
 * fit in registers. The compiler would give each row an offset of its own, and
 * fetch those from the stack in the innermost loop.
 */
typedef struct row_pointers {
    const char *four[(V_ROWS + 3) / 4];
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

INLINE void multiply(vec sum[V_ROWS][V_VECS], const product *p, size_t row,
                     size_t lane, const int rows, const int vecs,
                     const product_kind kind)
{
    const word *columns = p->a + row;
    row_pointers apart =
        point_to_rows(p->a + row * p->lda, kind.a_columns ? 0 : p->lda, rows);
    const float *b = p->b + lane;
    for (size_t left = p->depth; left > 0; left--) {
        vec bs[V_VECS];
        UNROLL
        for (int v = 0; v < vecs; v++)
            bs[v] = v_load(b + v * V_LANES);
        UNROLL
        for (int r = 0; r < rows; r++) {
            const vec as =
                v_set1(kind.a_columns ? columns[r] : row_word(&apart, r));
            UNROLL
            for (int v = 0; v < vecs; v++)
                sum[r][v] = kind.half ? v_dot_pairs(sum[r][v], as, bs[v])
                                      : v_fma(as, bs[v], sum[r][v]);
        }
        columns += p->lda;
        UNROLL
        for (int r = 0; r < rows; r += 4)
            apart.four[r / 4] += sizeof(word);
        b += p->ldb;
    }
}

INLINE void put(const product *p, size_t row, size_t lane, const vec sum,
                const result_mode mode)
{
    float *c = p->c + row * p->ldc + lane;
    if (mode == ADD)
        v_store(c, v_add(v_load(c), sum));
    else if (mode == SCALE_ADD)
        v_store(c, v_fma(v_load(c), v_set1(p->extra[row]), sum));
    else
        v_store(c, sum);
}

/* `rows` x `vecs` of C. */
INLINE void block(const product *p, size_t row, size_t lane, const int rows,
                  const int vecs, const product_kind kind)
{
    vec sum[V_ROWS][V_VECS];
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < vecs; v++)
            sum[r][v] = v_set1(0.0F);
    }
    multiply(sum, p, row, lane, rows, vecs, kind);
    UNROLL
    for (int v = 0; v < vecs; v++) {
        const size_t at = lane + (size_t)v * V_LANES;
        UNROLL
        for (int r = 0; r < rows; r++)
            put(p, row + (size_t)r, at, sum[r][v], kind.mode);
        if (kind.mode == SET_MAX) {
            vec most = v_load(p->extra + at);
            UNROLL
            for (int r = 0; r < rows; r++)
                most = v_max(most, sum[r][v]);
            v_store(p->extra + at, most);
        }
    }
}

/* All rows of `vecs` vectors. Leftover rows go in powers of two. */
INLINE void panel(const product *p, size_t lane, const int vecs,
                  const product_kind kind)
{
    size_t row = 0;
    for (; row + V_ROWS <= p->rows; row += V_ROWS)
        block(p, row, lane, V_ROWS, vecs, kind);
    if (V_ROWS > 4 && row + 4 <= p->rows) {
        block(p, row, lane, 4, vecs, kind);
        row += 4;
    }
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
    for (; lane + PANEL <= p->lanes; lane += PANEL)
        panel(p, lane, V_VECS, kind);
    for (; lane < p->lanes; lane += V_LANES)
        panel(p, lane, 1, kind);
}

/*
 * Rows of a product that is made anew for every group of rows, because each
 * group sees other keys.
 */
INLINE size_t group_rows(const bool half)
{
    return V_TILES && half ? 16 : V_ROWS;
}

#if V_TILES
#    include "kernels/attention/tile_amx.h"

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

/*
 * 2^x. Relative error at most 2^-22 where the result is a normal number; below
 * 2^-126 it goes to 0, exactly 0 at -127 and less. x at most 127. Cody and
 * Waite's reduction to x = n + f, |f| <= 1/2 (adding 1.5 * 2^23 rounds to the
 * integer n), then a polynomial of 2^f with value 1 at 0, whose relative error
 * on the interval is 9.2e-8 (minimax); what is left is rounding.
 */
INLINE vec v_exp2(vec x)
{
    const vec magic = v_set1(0x1.8p23F);
    x = v_max(v_set1(-127.0F), x);
    const vec n = v_add(x, magic);
    const vec f = v_sub(x, v_sub(n, magic));
    vec y = v_set1(0x1.5bba14p-10F);
    y = v_fma(y, f, v_set1(0x1.3cea88p-7F));
    y = v_fma(y, f, v_set1(0x1.c6b752p-5F));
    y = v_fma(y, f, v_set1(0x1.ebf9bcp-3F));
    y = v_fma(y, f, v_set1(0x1.62e42ap-1F));
    y = v_fma(y, f, v_set1(1.0F));
    return v_add_exponent(y, n);
}

static inline size_t round_up(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

static inline size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

#endif
