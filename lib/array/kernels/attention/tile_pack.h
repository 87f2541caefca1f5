/*
 * How queries, keys and values are laid out for the products of tile.h. A row
 * has d elements of the user's type; as words it is d floats, or d/2 pairs of
 * bf16 (the last one filled up with zero).
 *
 *   rows      [row][words]         A, broadcast
 *   columns   [words][PANEL]       B, one panel of rows, transposed
 *   lanes     [row][width]         B, f32; bf16: [row / 2][width], each word
 *                                  the elements of two rows
 *
 * width is d rounded up to LANES, and one vector more if rows of d would
 * otherwise share few sets of the first-level cache. Padding is zero.
 */
#ifndef LS_ARRAY_KERNELS_ATTENTION_TILE_PACK_H
#define LS_ARRAY_KERNELS_ATTENTION_TILE_PACK_H

#include "array/kernels/attention/flash.h"
#include "array/kernels/attention/tile.h"

INLINE size_t element_bytes(const bool half)
{
    return half ? sizeof(uint16_t) : sizeof(float);
}

INLINE size_t words_of(size_t n, const bool half)
{
    return half ? (n + 1) / 2 : n;
}

INLINE const char *row_at(lsi_flash_rows rows, size_t row, const bool half)
{
    return (const char *)rows.data + row * rows.ld * element_bytes(half);
}

/* Up to LANES words, zeros after `bytes`. */
INLINE vf load_words(const char *from, size_t bytes)
{
    if (bytes >= LANES * sizeof(float))
        return vf_load((const word *)from, LANES);
    float words[LANES] = {0};
    memcpy(words, from, bytes);
    return vf_load(words, LANES);
}

/* Rows first..first+n-1 (n <= PANEL) as columns; padding rows are zero. */
INLINE void pack_columns(float *to, lsi_flash_rows rows, size_t first, size_t n,
                         size_t d, const bool half)
{
    const size_t bytes = d * element_bytes(half);
    const size_t step = LANES * sizeof(float);
    float edge[LANES * LANES];
    for (size_t lane = 0; lane < PANEL; lane += LANES) {
        for (size_t at = 0; at < bytes; at += step) {
            vf from[LANES];
            for (size_t r = 0; r < LANES; r++)
                from[r] =
                    lane + r < n
                        ? load_words(row_at(rows, first + lane + r, half) + at,
                                     bytes - at)
                        : vf_set(0.0F);
            const size_t word0 = at / sizeof(float);
            const size_t count = words_of(d, half) - word0;
            if (count >= LANES) {
                store_columns(to + word0 * PANEL + lane, PANEL, from);
                continue;
            }
            store_columns(edge, LANES, from);
            for (size_t w = 0; w < count; w++)
                vf_store(to + (word0 + w) * PANEL + lane,
                         vf_load(edge + w * LANES, LANES), LANES);
        }
    }
}

/* An operand as the products read it: the user's memory or a packed copy. */
typedef struct operand {
    const word *data;
    size_t ld; /* in words */
} operand;

/*
 * Rows for A. Rows that are far apart are copied, too: at strides of a power of
 * two they would share a few cache sets.
 */
INLINE bool rows_are_ready(lsi_flash_rows rows, size_t d, const bool half)
{
    return rows.ld == d && (!half || d % 2 == 0);
}

INLINE operand rows_operand(const float *packed, lsi_flash_rows rows,
                            size_t first, size_t d, const bool half)
{
    const size_t words = words_of(d, half);
    const word *user = (const word *)row_at(rows, first, half);
    return (operand){rows_are_ready(rows, d, half) ? user : packed, words};
}

INLINE operand pack_rows(float *to, lsi_flash_rows rows, size_t first, size_t n,
                         size_t d, const bool half)
{
    const size_t words = words_of(d, half);
    const bool ready = rows_are_ready(rows, d, half);
    for (size_t r = 0; !ready && r < n; r++) {
        to[(r + 1) * words - 1] = 0.0F;
        memcpy(to + r * words, row_at(rows, first + r, half),
               d * element_bytes(half));
    }
    return rows_operand(to, rows, first, d, half);
}

INLINE size_t lanes_width(size_t d)
{
    const size_t width = round_up(d, LANES);
    return width % 128 == 0 ? width + LANES : width;
}

INLINE bool lanes_are_ready(lsi_flash_rows rows, size_t d, const bool half)
{
    return !half && rows.ld == d && lanes_width(d) == d;
}

INLINE operand lanes_operand(const float *packed, lsi_flash_rows rows,
                             size_t first, size_t d, const bool half)
{
    const word *user = (const word *)row_at(rows, first, half);
    return (operand){lanes_are_ready(rows, d, half) ? user : packed,
                     lanes_width(d)};
}

/* One row of pairs: elements of rows a and b; b may be NULL: zeros. */
INLINE void pack_pair(float *to, const char *a, const char *b, size_t d)
{
    const uint16_t zeros[LANES] = {0};
    size_t c = 0;
    for (; c + LANES <= d; c += LANES) {
        const void *low = a + c * sizeof(uint16_t);
        const void *high = zeros;
        if (b != NULL)
            high = b + c * sizeof(uint16_t);
        vf_store(to + c, vf_pair_bits(low, high), LANES);
    }
    if (c == d)
        return;
    uint16_t low[LANES] = {0}, high[LANES] = {0};
    memcpy(low, a + c * sizeof(uint16_t), (d - c) * sizeof(uint16_t));
    if (b != NULL)
        memcpy(high, b + c * sizeof(uint16_t), (d - c) * sizeof(uint16_t));
    vf_store(to + c, vf_pair_bits(low, high), LANES);
}

INLINE operand pack_lanes(float *to, lsi_flash_rows rows, size_t first,
                          size_t n, size_t d, const bool half)
{
    const size_t width = lanes_width(d);
    if (lanes_are_ready(rows, d, half))
        n = 0;
    for (size_t r = 0; half && r < n; r += 2)
        pack_pair(to + r / 2 * width, row_at(rows, first + r, half),
                  r + 1 < n ? row_at(rows, first + r + 1, half) : NULL, d);
    for (size_t r = 0; !half && r < n; r++) {
        float *row = to + r * width;
        memset(row + round_up(d, LANES) - LANES, 0, LANES * sizeof(float));
        memcpy(row, row_at(rows, first + r, half), d * sizeof(float));
    }
    return lanes_operand(to, rows, first, d, half);
}

#endif
