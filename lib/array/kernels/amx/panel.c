/* See panel.h. */
#include "array/kernels/amx/panel.h"

#include <string.h>

#include "fold/avx512/vector.h"

#define UNROLL _Pragma("GCC unroll 16")

enum { TILE = 16, ROW_BYTES = TILE * sizeof(uint32_t), PARTS = 3 };

/* ---- packing ------------------------------------------------------------- */

/* The high halves of two numbers as one word. */
INLINE vf pair(vf low, vf high)
{
    return _mm512_castsi512_ps(
        _mm512_mask_mov_epi16(_mm512_srli_epi32(_mm512_castps_si512(low), 16),
                              0xaaaaaaaa, _mm512_castps_si512(high)));
}

INLINE vf cut(vf x)
{
    const __m512i high = _mm512_set1_epi32((int)0xffff0000U);
    return _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(x), high));
}

/* To the nearest; of two, to that farther from 0. */
INLINE vf round_half(vf x)
{
    const __m512i half = _mm512_set1_epi32(0x8000);
    return cut(
        _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(x), half)));
}

/* The first part is cut, not rounded: so it cannot become infinite. */
INLINE void split(vf part[PARTS], vf x)
{
    part[0] = cut(x);
    const vf rest = vf_sub(x, part[0]);
    part[1] = round_half(rest);
    part[2] = vf_sub(rest, part[1]);
}

/* One row of a tile of each part. */
INLINE void put_words(uint32_t *to, vf low, vf high)
{
    vf l[PARTS], h[PARTS];
    split(l, low);
    split(h, high);
    UNROLL
    for (size_t i = 0; i < PARTS; i++)
        vf_store((float *)(void *)(to + i * 2 * LSI_TILE_WORDS),
                 pair(l[i], h[i]), LANES);
}

/* Rows of tiles are in the order of the operand's rows. */
INLINE void pack_rows(uint32_t *to, const float *low, const float *high,
                      size_t ld)
{
    for (size_t i = 0; i < TILE; i++)
        put_words(to + i * TILE, vf_load(low + i * ld, LANES),
                  vf_load(high + i * ld, LANES));
}

INLINE void turn(float *to, const float *from, size_t ld)
{
    vf rows[TILE];
    UNROLL
    for (size_t i = 0; i < TILE; i++)
        rows[i] = vf_load(from + i * ld, LANES);
    vf_transpose(rows);
    UNROLL
    for (size_t i = 0; i < TILE; i++)
        vf_store(to + i * TILE, rows[i], LANES);
}

INLINE void pack_columns(uint32_t *to, const float *low, const float *high,
                         size_t ld)
{
    float turned[2][LSI_TILE_WORDS] __attribute__((aligned(64)));
    turn(turned[0], low, ld);
    turn(turned[1], high, ld);
    pack_rows(to, turned[0], turned[1], TILE);
}

/* A step of which all lanes and terms are there. */
INLINE void pack_step(uint32_t *to, const lsi_strip *s, const bool turned)
{
    const size_t half = s->lanes_dense ? TILE : TILE * s->ld;
    const size_t later = s->lanes_dense ? TILE * s->ld : TILE;
    for (size_t i = 0; i < 2; i++) {
        const float *low = s->data + i * half;
        if (turned)
            pack_columns(to + i * LSI_TILE_WORDS, low, low + later, s->ld);
        else
            pack_rows(to + i * LSI_TILE_WORDS, low, low + later, s->ld);
    }
}

/* The existing part of a step, with zeros around it. */
static void fill_up(float square[LSI_SUMS], const lsi_strip *s)
{
    const size_t rows = s->lanes_dense ? s->terms : s->lanes;
    const size_t cols = s->lanes_dense ? s->lanes : s->terms;
    memset(square, 0, LSI_SUMS * sizeof(float));
    for (size_t i = 0; i < rows; i++)
        memcpy(square + i * LSI_PANEL_LANES, s->data + i * s->ld,
               cols * sizeof(float));
}

INLINE void pack(uint32_t *to, const lsi_strip *strip, const bool turned)
{
    lsi_strip s = *strip;
    float square[LSI_SUMS];
    for (size_t done = 0; done < strip->terms; done += LSI_STEP_TERMS) {
        s.data = strip->data + done * (strip->lanes_dense ? strip->ld : 1);
        s.ld = strip->ld;
        s.terms = strip->terms - done;
        if (s.terms > LSI_STEP_TERMS)
            s.terms = LSI_STEP_TERMS;
        if (s.terms < LSI_STEP_TERMS || s.lanes < LSI_PANEL_LANES) {
            fill_up(square, &s);
            s.data = square;
            s.ld = LSI_PANEL_LANES;
        }
        pack_step(to, &s, turned);
        to += LSI_STEP_WORDS;
    }
}

void lsi_amx_pack_a(uint32_t *panel, const lsi_strip *strip)
{
    if (strip->lanes_dense)
        pack(panel, strip, true);
    else
        pack(panel, strip, false);
}

void lsi_amx_pack_b(uint32_t *panel, const lsi_strip *strip)
{
    if (strip->lanes_dense)
        pack(panel, strip, false);
    else
        pack(panel, strip, true);
}

/* ---- results ------------------------------------------------------------- */

static __mmask16 first(size_t lanes)
{
    return lanes >= LANES ? 0xffff : (__mmask16)((1U << lanes) - 1);
}

INLINE void put_vector(const lsi_amx_result *to, size_t row, size_t col, vf sum)
{
    const __mmask16 mask = first(to->cols > col ? to->cols - col : 0);
    float *c = to->c + row * to->ld + col;
    if (to->add)
        sum = vf_add(sum, _mm512_maskz_loadu_ps(mask, c));
    if (to->bias != NULL)
        sum = vf_add(sum, _mm512_maskz_loadu_ps(mask, to->bias + col));
    _mm512_mask_storeu_ps(c, mask, sum);
}

void lsi_amx_put(const lsi_amx_result *to, const float *sums)
{
    for (size_t row = 0; row < to->rows; row++) {
        const float *from =
            sums + row / TILE * (LSI_SUMS / 2) + row % TILE * TILE;
        put_vector(to, row, 0, vf_load(from, LANES));
        put_vector(to, row, TILE, vf_load(from + LSI_TILE_WORDS, LANES));
    }
}

/* ---- tiles --------------------------------------------------------------- */

_Static_assert(sizeof(lsi_tile_config) == 64,
               "AMX loads a configuration of 64 bytes");

/* Not a local one: the compiler would not know that all of it is read. */
static const lsi_tile_config config = {
    .palette = 1,
    .row_bytes = {ROW_BYTES, ROW_BYTES, ROW_BYTES, ROW_BYTES, ROW_BYTES,
                  ROW_BYTES, ROW_BYTES, ROW_BYTES},
    .rows = {TILE, TILE, TILE, TILE, TILE, TILE, TILE, TILE}};

void lsi_amx_begin(lsi_tile_config *before)
{
    _tile_storeconfig(before);
    _tile_loadconfig(&config);
}

void lsi_amx_end(const lsi_tile_config *before)
{
    _tile_loadconfig(before);
}

INLINE void load_a(const uint32_t *step, size_t part)
{
    const uint32_t *tile = step + part * 2 * LSI_TILE_WORDS;
    _tile_loadd(4, tile, ROW_BYTES);
    _tile_loadd(5, tile + LSI_TILE_WORDS, ROW_BYTES);
}

INLINE void load_b(const uint32_t *step, size_t part)
{
    const uint32_t *tile = step + part * 2 * LSI_TILE_WORDS;
    _tile_loadd(6, tile, ROW_BYTES);
    _tile_loadd(7, tile + LSI_TILE_WORDS, ROW_BYTES);
}

INLINE void multiply_parts(void)
{
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
}

/* Six pairs of parts; from one to the next, only one of the two changes. */
INLINE void multiply_step(const uint32_t *a, const uint32_t *b)
{
    load_b(b, 2);
    load_a(a, 0);
    multiply_parts();
    load_b(b, 1);
    multiply_parts();
    load_a(a, 1);
    multiply_parts();
    load_b(b, 0);
    multiply_parts();
    load_a(a, 0);
    multiply_parts();
    load_a(a, 2);
    multiply_parts();
}

INLINE void load_sums(const float *sums)
{
    _tile_loadd(0, sums, ROW_BYTES);
    _tile_loadd(1, sums + LSI_TILE_WORDS, ROW_BYTES);
    _tile_loadd(2, sums + 2 * LSI_TILE_WORDS, ROW_BYTES);
    _tile_loadd(3, sums + 3 * LSI_TILE_WORDS, ROW_BYTES);
}

INLINE void clear_sums(void)
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

INLINE void store_sums(float *sums)
{
    _tile_stored(0, sums, ROW_BYTES);
    _tile_stored(1, sums + LSI_TILE_WORDS, ROW_BYTES);
    _tile_stored(2, sums + 2 * LSI_TILE_WORDS, ROW_BYTES);
    _tile_stored(3, sums + 3 * LSI_TILE_WORDS, ROW_BYTES);
}

INLINE void ask(const float *at, size_t lines)
{
    enum { LINE = 64 / sizeof(float) };
    for (; lines > 0; lines--, at += LINE)
        _mm_prefetch((const char *)at, _MM_HINT_T1);
}

/* The rows that fall to step `at` of all. */
static void fetch_rows(const lsi_fetch *f, size_t at, size_t all)
{
    const size_t end = f->rows * (at + 1) / all;
    for (size_t i = f->rows * at / all; i < end; i++)
        ask(f->data + i * f->ld, f->lines);
}

void lsi_amx_multiply(const lsi_amx_product *product)
{
    const size_t panels = product->panels, steps = product->steps;
    const uint32_t *a = product->a;
    float *sums = product->sums;
    /* Tiles are loaded behind the compiler's back: all must be written. */
    __asm__ volatile("" ::: "memory");
    for (size_t p = 0; p < panels; p++) {
        fetch_rows(&product->fetch, p, panels);
        if (product->add)
            load_sums(sums);
        else
            clear_sums();
        for (size_t s = 0; s < steps; s++) {
            multiply_step(a, product->b + s * LSI_STEP_WORDS);
            a += LSI_STEP_WORDS;
        }
        store_sums(sums);
        sums += LSI_SUMS;
    }
}
