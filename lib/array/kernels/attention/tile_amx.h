/*
 * Products of bf16 by AMX: an instruction multiplies 16 x 32 by 32 x 16. Its
 * operands are A (rows of words) and B (words of two terms) of tile.h, so they
 * are loaded in place. Two tiles of A and two of B make four of C: all eight
 * tiles of the processor.
 *
 * Included by tile.h where PRODUCT_TILES is defined.
 */
#include <immintrin.h>

#include "array/kernels/amx/panel.h"

enum { TILE = 16 /* rows, and words of a row */, MAX_DEPTH = 64 };

typedef lsi_tile_config tile_config;

INLINE void begin_tiles(tile_config *before)
{
    lsi_amx_begin(before);
}

INLINE void end_tiles(const tile_config *before)
{
    lsi_amx_end(before);
}

/* rows and lanes: of tiles, 1 or 2. */
INLINE void multiply_block(const product *p, const int rows, const int lanes,
                           const bool add)
{
    const size_t lda = p->lda * sizeof(word), ldb = p->ldb * sizeof(word);
    const size_t ldc = p->ldc * sizeof(float);
    float *c = p->c, *below = p->c + TILE * p->ldc;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    if (add) {
        _tile_loadd(0, c, ldc);
        if (lanes > 1)
            _tile_loadd(1, c + TILE, ldc);
        if (rows > 1)
            _tile_loadd(2, below, ldc);
        if (rows > 1 && lanes > 1)
            _tile_loadd(3, below + TILE, ldc);
    }
    for (size_t d = 0; d < p->depth; d += TILE) {
        const float *b = p->b + d * p->ldb;
        _tile_loadd(4, p->a + d, lda);
        _tile_loadd(6, b, ldb);
        _tile_dpbf16ps(0, 4, 6);
        if (lanes > 1) {
            _tile_loadd(7, b + TILE, ldb);
            _tile_dpbf16ps(1, 4, 7);
        }
        if (rows > 1) {
            _tile_loadd(5, p->a + TILE * p->lda + d, lda);
            _tile_dpbf16ps(2, 5, 6);
        }
        if (rows > 1 && lanes > 1)
            _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c, ldc);
    if (lanes > 1)
        _tile_stored(1, c + TILE, ldc);
    if (rows > 1)
        _tile_stored(2, below, ldc);
    if (rows > 1 && lanes > 1)
        _tile_stored(3, below + TILE, ldc);
}

/* One or two tiles of rows, all lanes. */
INLINE void multiply_tile_rows(product p, const int rows, const bool add)
{
    size_t lane = 0;
    for (; lane + 2 * TILE <= p.lanes; lane += 2 * TILE) {
        multiply_block(&p, rows, 2, add);
        p.b += 2 * TILE;
        p.c += 2 * TILE;
    }
    if (lane < p.lanes)
        multiply_block(&p, rows, 1, add);
}

/* A as rows, of one tile of them. */
INLINE void turn_columns(float *to, const product *p)
{
    for (size_t d = 0; d < p->depth; d += TILE) {
        vf words[TILE];
        UNROLL
        for (size_t i = 0; i < TILE; i++)
            words[i] = vf_load(p->a + (d + i) * p->lda, LANES);
        store_columns(to + d, MAX_DEPTH, words);
    }
}

INLINE void multiply_columns(product p, const int rows, const bool add)
{
    float turned[2 * TILE * MAX_DEPTH] __attribute__((aligned(64)));
    product q = p;
    turn_columns(turned, &p);
    if (rows > 1) {
        p.a += TILE;
        turn_columns(turned + TILE * MAX_DEPTH, &p);
    }
    q.a = turned;
    q.lda = MAX_DEPTH;
    multiply_tile_rows(q, rows, add);
}

INLINE void scale_rows(const product *p)
{
    for (size_t r = 0; r < p->rows; r++) {
        const vf factor = vf_set(p->extra[r]);
        float *c = p->c + r * p->ldc;
        for (size_t lane = 0; lane < p->lanes; lane += LANES)
            vf_store(c + lane, vf_mul(vf_load(c + lane, LANES), factor), LANES);
    }
}

INLINE void find_maxima(const product *p)
{
    for (size_t lane = 0; lane < p->lanes; lane += LANES) {
        vf most = vf_load(p->extra + lane, LANES);
        for (size_t r = 0; r < p->rows; r++)
            most = vf_max(most, vf_load(p->c + r * p->ldc + lane, LANES));
        vf_store(p->extra + lane, most, LANES);
    }
}

/* Rows that fill no tile, and depths that do not, are left to the vectors. */
INLINE size_t rows_of_tiles(const product *p, const product_kind kind)
{
    const bool fits = kind.half && p->depth > 0 && p->depth % TILE == 0 &&
                      (!kind.a_columns || p->depth <= MAX_DEPTH);
    return fits ? p->rows / TILE * TILE : 0;
}

INLINE void multiply_tiles(const product *p, const product_kind kind)
{
    const bool add = kind.mode == ADD || kind.mode == SCALE_ADD;
    product q = *p;
    if (kind.mode == SCALE_ADD)
        scale_rows(p);
    for (size_t row = 0; row < p->rows; row += 2 * TILE) {
        const int rows = p->rows - row > TILE ? 2 : 1;
        if (kind.a_columns)
            multiply_columns(q, rows, add);
        else
            multiply_tile_rows(q, rows, add);
        q.a += 2 * TILE * (kind.a_columns ? 1 : p->lda);
        q.c += 2 * TILE * p->ldc;
    }
    if (kind.mode == SET_MAX)
        find_maxima(p);
}
