/* Parts shared by the passes of winograd.c and winograd_gradient.c. */
#ifndef LS_ARRAY_KERNELS_AVX512_BF16_WINOGRAD_TILE_H
#define LS_ARRAY_KERNELS_AVX512_BF16_WINOGRAD_TILE_H

#include <immintrin.h>
#include <string.h>

#include "array/kernels/winograd.h"

#define INLINE static inline __attribute__((always_inline, unused))

enum { POINTS = LSI_WINOGRAD_POINTS, BLOCK = 16, TAPS = 9 };

INLINE __m512 widen(__m256i halves)
{
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

INLINE __m256i round_16(__m512 x)
{
    return (__m256i)_mm512_cvtneps_pbh(x);
}

/* Lane by lane (a, b): the pairs that dpbf16 multiplies and adds up. */
INLINE __m512i pair_up(__m256i a, __m256i b)
{
    return _mm512_or_si512(_mm512_cvtepu16_epi32(a),
                           _mm512_slli_epi32(_mm512_cvtepu16_epi32(b), 16));
}

/* A pair of one channel for all lanes. */
INLINE __m512bh pair_of(const uint16_t *p)
{
    int32_t pair;
    memcpy(&pair, p, sizeof pair);
    return (__m512bh)_mm512_set1_epi32(pair);
}

/*
 * `side` x `side` pixels of a block of channels, from `at` on; those outside of
 * the image are not in it, and 0.
 */
typedef struct pixels {
    size_t image;
    int64_t at, row; /* elements; the first pixel may lie outside */
    bool whole;
    __mmask16 in[POINTS];
} pixels;

/* At (y, x) of an image of h x w. */
INLINE void find_pixels(pixels *p, int side, int64_t y, int64_t x, int64_t h,
                        int64_t w)
{
    p->at = (y * w + x) * BLOCK;
    p->row = w * BLOCK;
    p->whole = y >= 0 && x >= 0 && y + side <= h && x + side <= w;
    memset(p->in, 0xff, sizeof p->in);
    if (p->whole)
        return;
    __mmask16 columns[4];
    for (int j = 0; j < side; j++)
        columns[j] = (uint64_t)(x + j) < (uint64_t)w ? 0xffff : 0;
    for (int i = 0; i < side; i++)
        for (int j = 0; j < side; j++)
            p->in[i * side + j] =
                (uint64_t)(y + i) < (uint64_t)h ? columns[j] : 0;
}

/*
 * Tile `index` of all. Side 2: of the result; side 4: the pixels of the source
 * that it needs. Tiles after the last have no pixels.
 */
INLINE void find_tile(pixels *p, const lsi_winograd_conv *s, size_t index,
                      int side)
{
    const size_t across = (size_t)(s->ow + 1) / 2;
    const size_t down = (size_t)(s->oh + 1) / 2;
    const size_t row = index / across;
    const int64_t y = 2 * (int64_t)(row % down);
    const int64_t x = 2 * (int64_t)(index % across);
    p->image = row / down;
    if (p->image >= (size_t)s->n)
        *p = (pixels){.image = 0};
    else if (side == 2)
        find_pixels(p, 2, y, x, s->oh, s->ow);
    else
        find_pixels(p, 4, y - s->padding, x - s->padding, s->h, s->w);
}

INLINE void read_pixels(__m512 *d, const uint16_t *block, const pixels *p,
                        int side)
{
    const uint16_t *from = block + p->at;
    if (p->whole) {
        for (int i = 0; i < side * side; i++)
            d[i] = widen(_mm256_loadu_si256(
                (const void *)(from + i / side * p->row + i % side * BLOCK)));
        return;
    }
    for (int i = 0; i < side * side; i++)
        d[i] = widen(_mm256_maskz_loadu_epi16(
            p->in[i], from + i / side * p->row + i % side * BLOCK));
}

/* d = B^T d B with B^T = (1 0 -1 0; 0 1 1 0; 0 -1 1 0; 0 1 0 -1). */
INLINE void source_line(__m512 *d, int step)
{
    const __m512 d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step];
    d[0] = _mm512_sub_ps(d0, d2);
    d[step] = _mm512_add_ps(d1, d2);
    d[2 * step] = _mm512_sub_ps(d2, d1);
    d[3 * step] = _mm512_sub_ps(d1, d3);
}

INLINE void source_points(__m512 d[POINTS])
{
    for (int i = 0; i < 4; i++)
        source_line(d + i, 4);
    for (int i = 0; i < 4; i++)
        source_line(d + 4 * i, 1);
}

/* The points of a tile of the source, of 16 channels. */
INLINE void read_source(__m512 d[POINTS], const uint16_t *block,
                        const pixels *p)
{
    read_pixels(d, block, p, 4);
    source_points(d);
}

/* to[c][r] = from[r][c] of 16 x 16 floats. */
INLINE void transpose_16(float *to, size_t ld_to, const float *from,
                         size_t ld_from)
{
    __m512 a[BLOCK], b[BLOCK];
    for (size_t i = 0; i < BLOCK; i++)
        a[i] = _mm512_loadu_ps(from + i * ld_from);
    for (int i = 0; i < BLOCK; i += 2) {
        b[i] = _mm512_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm512_unpackhi_ps(a[i], a[i + 1]);
    }
    for (int i = 0; i < BLOCK; i += 4)
        for (int k = 0; k < 2; k++) {
            const __m512d lo = _mm512_castps_pd(b[i + k]);
            const __m512d hi = _mm512_castps_pd(b[i + k + 2]);
            a[i + 2 * k] = _mm512_castpd_ps(_mm512_unpacklo_pd(lo, hi));
            a[i + 2 * k + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(lo, hi));
        }
    for (int i = 0; i < BLOCK; i += 8)
        for (int k = 0; k < 4; k++) {
            b[i + k] = _mm512_shuffle_f32x4(a[i + k], a[i + k + 4], 0x88);
            b[i + k + 4] = _mm512_shuffle_f32x4(a[i + k], a[i + k + 4], 0xdd);
        }
    for (size_t k = 0; k < 8; k++) {
        _mm512_storeu_ps(to + k * ld_to,
                         _mm512_shuffle_f32x4(b[k], b[k + 8], 0x88));
        _mm512_storeu_ps(to + (k + 8) * ld_to,
                         _mm512_shuffle_f32x4(b[k], b[k + 8], 0xdd));
    }
}

#endif
